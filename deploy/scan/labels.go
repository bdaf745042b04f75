package scan

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LabelsFile is the name of the file with the labels of a set, in the set's folder.
const LabelsFile = "unloop-labels.jsonl"

// Verdict is a person's judgement of a session.
type Verdict string

// The verdicts. Right, Wrong and Unsure are about what was found in a session; Stuck and
// Honest are about a session whatever was found.
const (
	Right  Verdict = "right"
	Wrong  Verdict = "wrong"
	Unsure Verdict = "unsure"
	Stuck  Verdict = "stuck"
	Honest Verdict = "honest"
)

// Label is a person's verdict about a session.
type Label struct {
	// File is the path of the session's file relative to the folder of its set, with slashes.
	// It is "" for a session that a gateway recorded, which may be in several files. In labels
	// that come from a page, Digest takes its place. Session is the name in reports.
	File    string  `json:"file,omitempty"`
	Digest  string  `json:"file_digest,omitempty"`
	Session string  `json:"session"`
	Verdict Verdict `json:"verdict"`
	// Stale is the number of the first request that brought nothing new; 0 if not known.
	Stale int `json:"stale,omitempty"`
	// Note is the reason.
	Note string `json:"note,omitempty"`
}

// name identifies the session in its set.
func (l *Label) name() string { return l.File + "#" + l.Session }

// Labels has labels by session. The file of a place is absolute, or "" for any file.
type Labels map[place]Label

// readLines reads labels, one JSON object a line.
func readLines(r io.Reader) (all []Label, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var l Label
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !slices.Contains([]Verdict{Right, Wrong, Unsure, Stuck, Honest}, l.Verdict) || l.Session == "" {
			return nil, fmt.Errorf("line %d: want a session and a verdict: right, wrong, unsure, stuck or honest", n)
		}
		all = append(all, l)
	}
	return all, lines.Err()
}

// ReadLabels reads the labels of a set from a file in its folder. The last label of a session
// counts.
func ReadLabels(path string) (Labels, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	all, err := readLines(f)
	if err != nil {
		return nil, err
	}
	out := Labels{}
	for _, l := range all {
		at := place{session: l.Session}
		if l.File != "" {
			at.file = absolute(filepath.Join(filepath.Dir(path), filepath.FromSlash(l.File)))
		}
		out[at] = l
	}
	return out, nil
}

// absolute returns an absolute path if possible.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// LabelsIn returns the labels in the folders of sets.
func LabelsIn(folders []string) (Labels, error) {
	out := Labels{}
	for _, folder := range folders {
		path := filepath.Join(folder, LabelsFile)
		found, err := ReadLabels(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		maps.Copy(out, found)
	}
	return out, nil
}

// InSet returns the label with its file in the set. The label's session names the file as
// reports do, or by its path relative to the set's folder.
func InSet(folder string, l Label) (Label, error) {
	name, id, named := strings.Cut(l.Session, "#")
	if !named { // a gateway recorded it
		return l, nil
	}
	files, err := InFolder(folder, os.Getenv)
	if err != nil {
		return l, err
	}
	var found []string
	for _, f := range files {
		file := f.inSet()
		if file == filepath.ToSlash(name) {
			found = []string{file}
			break
		}
		if strings.HasSuffix("/"+file, "/"+filepath.ToSlash(name)) {
			found = append(found, file)
		}
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return l, fmt.Errorf("%s: %s holds no such file: name the session as unloop scan --json does", l.Session, folder)
	case 1:
		l.File, l.Session = found[0], filepath.Base(found[0])+"#"+id
		return l, nil
	}
	return l, fmt.Errorf("%s: %s holds %s: name one of them, as %s#%s", l.Session, folder, strings.Join(found, " and "), found[0], id)
}

// FromPage reads labels that were exported from a page, and returns those for files. others is
// the number of the rest.
func FromPage(r io.Reader, files []File) (labels []Label, others int, err error) {
	all, err := readLines(r)
	if err != nil {
		return nil, 0, err
	}
	known := map[string]string{}
	for _, f := range files {
		known[f.digest()] = f.inSet()
	}
	for _, l := range all {
		file, ok := known[l.Digest]
		if !ok {
			others++
			continue
		}
		l.File, l.Digest = file, ""
		labels = append(labels, l)
	}
	return labels, others, nil
}

// Append adds labels to the file in the folder of a set.
func Append(folder string, labels ...Label) (err error) {
	f, err := os.OpenFile(filepath.Join(folder, LabelsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, l := range labels {
		if err := json.NewEncoder(f).Encode(l); err != nil {
			return err
		}
	}
	return nil
}
