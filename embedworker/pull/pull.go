package pull

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Errors of Pull; they come wrapped.
var (
	ErrChecksum = errors.New("checksum does not match")
	ErrDownload = errors.New("download did not work")
)

// Options are the settings of Pull.
type Options struct {
	Dir       string     // folder of the installation
	Artifacts []Artifact // see Artifacts
	// From is a folder or an http(s) URL that has the files under their own
	// names; "" takes them from their public addresses.
	From     string
	Progress func(Progress) // may be nil
	Client   *http.Client   // nil means http.DefaultClient
}

// Progress is the progress of a file, in bytes.
type Progress struct {
	Name        string
	Done, Total int64
	// Ready says that the file is in its place.
	Ready bool
}

// Pull installs the artifacts that are missing or have another checksum. What an
// interrupted call has downloaded is kept and continued by the next.
func Pull(ctx context.Context, o Options) error {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	for _, a := range o.Artifacts {
		if err := o.install(ctx, a); err != nil {
			return fmt.Errorf("install %s: %w", a.Path, err)
		}
	}
	return nil
}

func (o Options) install(ctx context.Context, a Artifact) error {
	path := filepath.Join(o.Dir, a.Path)
	ready := Progress{Name: filepath.Base(path), Done: a.Size, Total: a.Size, Ready: true}
	if sum, err := fileSum(path); err == nil && sum == a.sum() {
		o.Progress(ready)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	part := path + ".part"
	if err := o.fetch(ctx, a, part); err != nil {
		return err
	}
	if err := check(part, a.SHA256); err != nil {
		return err
	}
	if err := place(a, part, path); err != nil {
		return err
	}
	o.Progress(ready)
	return nil
}

// check removes a file whose checksum is another.
func check(path, want string) error {
	sum, err := fileSum(path)
	if err != nil {
		return err
	}
	if sum != want {
		return errors.Join(fmt.Errorf("%w: SHA-256 is %s, not %s", ErrChecksum, sum, want), os.Remove(path))
	}
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// place moves the downloaded file, or its archive entry, to its place in one step.
func place(a Artifact, part, path string) error {
	if a.Entry == "" {
		return os.Rename(part, path)
	}
	unpacked := path + ".unpacked"
	err := extract(part, a.Entry, unpacked)
	if err == nil {
		err = check(unpacked, a.EntrySHA256)
	}
	if err == nil {
		err = os.Rename(unpacked, path)
	}
	if err != nil {
		_ = os.Remove(unpacked)
		return errors.Join(err, os.Remove(part))
	}
	return os.Remove(part)
}

// extract writes one file of a .tgz, whose checksum is known to be right.
func extract(archive, entry, path string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("find %s: %w", entry, err)
		}
		if header.Name == entry {
			return writeFile(path, io.LimitReader(files, header.Size), os.O_TRUNC)
		}
	}
}

// writeFile writes the data from r to a file, opened with flag.
func writeFile(path string, r io.Reader, flag int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// baseName is the name that a mirror has a file under.
func (a Artifact) baseName() string { return a.URL[strings.LastIndexByte(a.URL, '/')+1:] }
