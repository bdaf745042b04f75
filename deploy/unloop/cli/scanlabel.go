package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/unloop/unloop/deploy/scan"
)

type scanLabelCmd struct {
	Set     string `arg:"" type:"existingdir" help:"Folder of the set, beside whose files the labels are kept."`
	Session string `arg:"" help:"Session, as scan and replay name it (--json)."`
	Verdict string `arg:"" enum:"right,wrong,unsure,stuck,honest" help:"About what was found in the session: right, wrong or unsure. About the session, whatever was found: stuck or honest."`
	Stale   int    `placeholder:"N" help:"First request of a stuck session that brought nothing new."`
	Note    string `placeholder:"TEXT" help:"Why. Home folders and addresses in it are masked."`
	Raw     bool   `help:"Mask nothing in the note."`
}

// Run adds a label to the file beside a set.
func (c *scanLabelCmd) Run(io streams) error {
	if c.Stale < 0 || c.Stale > 0 && c.Verdict != string(scan.Stuck) {
		return errors.New("--stale is the number of a request of a stuck session, from 1")
	}
	file, _, named := strings.Cut(c.Session, "#")
	if named && !holds(c.Set, file) {
		return fmt.Errorf("%s: %s holds no such file: name the session as unloop scan --json does", c.Session, c.Set)
	}
	home, _ := os.UserHomeDir() // without one there is nothing to mask
	masking := scan.Masking{Home: home, Off: c.Raw}
	l := scan.Label{File: file, Session: c.Session, Verdict: scan.Verdict(c.Verdict), Stale: c.Stale, Note: masking.Text(c.Note)}
	if err := l.Append(c.Set); err != nil {
		return err
	}
	_, err := fmt.Fprintf(io.out, "%s: %s (%s)\n", c.Session, c.Verdict, filepath.Join(c.Set, scan.LabelsFile))
	return err
}

// holds reports whether a folder, or one in it, has a file with a name.
func holds(folder, name string) (found bool) {
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error { // what can't be read has no sessions
		if err == nil && !entry.IsDir() && filepath.Base(path) == name {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}
