package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/unloop/unloop/deploy/scan"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas/policy"
)

type policyTuneCmd struct {
	scanned
	formatted
	Sets     []string `arg:"" name:"set" type:"existingdir" help:"Folders with sessions and their labels (unloop scan label)."`
	Policies string   `type:"existingfile" placeholder:"FILE" help:"Bundle to tune. Default: the default policy."`
	Out      string   `env:"-" type:"path" placeholder:"FILE" help:"Write the tuned bundle, with the reasons as comments."`
}

// Run tunes thresholds on one half of the labelled sessions, and evaluates them on the other.
func (c *policyTuneCmd) Run(ctx context.Context, std streams) error {
	labels, err := scan.LabelsIn(c.Sets)
	if err != nil {
		return err
	}
	if len(labels) == 0 {
		return errors.New("none of the sets has labels; give some with `unloop scan label`")
	}
	bundle, err := policy.Default(os.Getenv)
	if c.Policies != "" {
		var read checked
		var complaints []complaint
		if read, _, complaints, err = readBundle(c.Policies); err != nil {
			printComplaints(std.printer(), complaints)
		}
		bundle = read.Bundle
	}
	if err != nil {
		return err
	}
	files, err := c.files(c.Sets)
	if err != nil {
		return err
	}
	tuned, err := scan.Tune(ctx, files, labels, bundle, c.config())
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := os.WriteFile(c.Out, []byte(tuned.Bundle), 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return c.show(std, tuned, func(out *printer) { printTuned(out, tuned, c.Out) })
}

func printTuned(out *printer, t *scan.Tuned, file string) {
	for _, w := range t.Warnings {
		out.printf("Warning: %s.\n", w)
	}
	if len(t.Adopted) == 0 {
		out.printf("No other threshold does better with these sessions.\n")
	}
	for _, c := range t.Adopted {
		out.printf("%s: %s\n", c.Policy, c.Why())
		table := terminal.NewTable(terminal.Column{Name: "BEFORE"}, terminal.Column{Name: "AFTER"}, terminal.Column{Name: "SESSION"})
		for _, change := range c.Changes {
			table.Row(change.One.String(), change.Other.String(), change.Session)
		}
		out.table(table)
	}
	out.printf("On the other half of the sessions, before: %s.\nAfter: %s.\n", t.Before, t.After)
	if file != "" {
		out.printf("The bundle is in %s.\n", file)
	}
}

// printScores prints precision and recall of each detector on labelled sessions.
func printScores(out *printer, scores []scan.Score) {
	t := terminal.NewTable(terminal.Column{Name: "POLICY"}, terminal.Column{Name: "DETECTOR"}, terminal.Column{Name: "FOUND"}, terminal.Column{Name: "FALSE"},
		terminal.Column{Name: "LATE", Right: true}, terminal.Column{Name: "PRECISION"}, terminal.Column{Name: "RECALL"})
	share := func(i scan.Interval) string { return fmt.Sprintf("%.2f (%.2f–%.2f)", i.Share, i.Low, i.High) }
	for _, s := range scores {
		late := "–"
		if s.Late != nil {
			late = fmt.Sprint(s.Late.Median)
			if s.Late.Low != nil {
				late += fmt.Sprintf(" (%d–%d)", *s.Late.Low, *s.Late.High)
			}
		}
		t.Row(s.Policy, s.Detector, fmt.Sprintf("%d of %d", s.Found, s.Stuck), fmt.Sprintf("%d of %d", s.False, s.Honest), late, share(s.Precision), share(s.Recall))
	}
	out.table(t)
}
