package scan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/scan/agents"
)

// File is a file with sessions, or a part of such a file.
type File struct {
	Path string
	// Set is the folder that was searched. Labels name the file relative to it.
	Set string
	// Part names the part; "" is the whole file. Size is in bytes.
	Part string
	Size int64
	// Agent is the program that wrote it; nil for recordings, exports and messages, which
	// package logs reads.
	Agent *agents.Agent
}

// inSet returns the path relative to the folder of the set, with slashes.
func (f *File) inSet() string {
	if rel, err := filepath.Rel(f.Set, f.Path); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(f.Path)
}

// digest identifies the file in its set without its name.
func (f *File) digest() string {
	sum := sha256.Sum256([]byte(f.inSet()))
	return hex.EncodeToString(sum[:8])
}

// Home returns the files in agents' session folders that were changed since a time.
func Home(home string, getenv func(string) string, since time.Time) (all []File, err error) {
	for _, a := range agents.All {
		for _, folder := range a.Folders {
			root := filepath.Join(home, folder)
			if own := getenv(a.Env); a.Env != "" && own != "" {
				_, rest, _ := strings.Cut(folder, "/")
				root = filepath.Join(own, rest)
			}
			found, walked := below(root, since, func(path string) (*agents.Agent, bool, error) { return a, a.Keeps(path), nil })
			if walked != nil && !errors.Is(walked, fs.ErrNotExist) {
				err = errors.Join(err, fmt.Errorf("%s: %w", a.Title, walked))
			}
			for _, f := range found {
				f.Set = home
				all = append(all, f)
			}
		}
	}
	return all, err
}

// At returns the file at a path, or the files below a folder that may have sessions.
func At(path string, since time.Time) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		a, err := agents.Of(path)
		return []File{{Path: path, Set: filepath.Dir(path), Size: info.Size(), Agent: a}}, err
	}
	return below(path, since, func(path string) (*agents.Agent, bool, error) {
		switch filepath.Ext(path) {
		case ".json", ".jsonl", ".ndjson", ".traj", ".db":
			if agents.IsPiece(path) || filepath.Base(path) == LabelsFile {
				return nil, false, nil
			}
			a, err := agents.Of(path)
			return a, true, err
		}
		return nil, false, nil
	})
}

// InFolder returns the files in a folder: if it is the home folder, those that agents keep, else
// all below it.
func InFolder(folder string, getenv func(string) string) ([]File, error) {
	if home, err := os.UserHomeDir(); err == nil && absolute(folder) == home {
		return Home(home, getenv, time.Time{})
	}
	return At(folder, time.Time{})
}

// below returns the wanted files below a folder. The largest come first: one that started last
// would run alone at the end. Links are not followed.
func below(root string, since time.Time, wanted func(path string) (*agents.Agent, bool, error)) (all []File, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.ModTime().Before(since) || info.Size() == 0 {
			return err
		}
		a, ok, err := wanted(path)
		if ok && err == nil {
			all = append(all, File{Path: path, Set: root, Size: info.Size(), Agent: a})
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b File) int { return cmp.Compare(b.Size, a.Size) })
	return all, err
}
