package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/unloop/unloop/deploy/scan"
)

type scanLabelCmd struct {
	Set     string `arg:"" type:"existingdir" help:"Folder with the sessions; the labels are stored there, too."`
	Session string `arg:"" optional:"" help:"Session, as named in the JSON of scan and replay. If several files have the same name, put the path from the folder before it."`
	Verdict string `arg:"" optional:"" enum:"right,wrong,unsure,stuck,honest," default:"" help:"About the findings in the session: right, wrong or unsure. About the session itself: stuck or honest."`
	From    string `env:"-" type:"existingfile" placeholder:"FILE" help:"Import the labels that were set on a page of unloop scan --html."`
	Stale   int    `env:"-" placeholder:"N" help:"Number of the first request in a stuck session that made no progress."`
	Note    string `env:"-" placeholder:"TEXT" help:"Reason. Home folders and addresses in it are masked."`
	Raw     bool   `env:"-" help:"Mask nothing in the note."`
}

// Run adds labels to the file in the folder.
func (c *scanLabelCmd) Run(std streams) error {
	switch {
	case c.From != "" && c.Session == "":
		return c.fromPage(std)
	case c.From != "":
		return errors.New("--from takes all labels of a file, and no session")
	case c.Session == "" || c.Verdict == "":
		return errors.New("name a session and a verdict: right, wrong, unsure, stuck or honest; or --from FILE")
	case c.Stale < 0 || c.Stale > 0 && c.Verdict != string(scan.Stuck):
		return errors.New("--stale is the number of a request of a stuck session, from 1")
	}
	home, _ := os.UserHomeDir() // without one there is nothing to mask
	masking := scan.Masking{Home: home, Off: c.Raw}
	l, err := scan.InSet(c.Set, scan.Label{Session: c.Session, Verdict: scan.Verdict(c.Verdict), Stale: c.Stale, Note: masking.Text(c.Note)})
	if err != nil {
		return err
	}
	if err := scan.Append(c.Set, l); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s: %s (%s)\n", c.Session, c.Verdict, filepath.Join(c.Set, scan.LabelsFile))
	return err
}

// fromPage imports the labels from a page.
func (c *scanLabelCmd) fromPage(std streams) error {
	files, err := scan.InFolder(c.Set, os.Getenv)
	if err != nil {
		return err
	}
	f, err := os.Open(c.From)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	labels, others, err := scan.FromPage(f, files)
	switch {
	case err != nil:
		return fmt.Errorf("--from %s: %w", c.From, err)
	case len(labels) == 0:
		return fmt.Errorf("--from %s: none of its %d labels is about a session in %s: name the folder that was scanned", c.From, others, c.Set)
	}
	if err := scan.Append(c.Set, labels...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s (%s), %d of sessions elsewhere.\n", plural(len(labels), "label"), filepath.Join(c.Set, scan.LabelsFile), others)
	return err
}
