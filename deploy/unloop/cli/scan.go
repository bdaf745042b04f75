package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/unloop/unloop/deploy/scan"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/kit/service"
)

type scanCmd struct {
	Find  scanFindCmd  `cmd:"" default:"withargs" help:"Find loops, and what they cost."`
	Label scanLabelCmd `cmd:"" help:"Label findings as right or wrong, to measure and tune policies."`
}

// scanned has the flags of commands that scan sessions.
type scanned struct {
	Since span          `env:"-" placeholder:"DURATION" help:"Only requests of the last DURATION, such as 30d. Default: all."`
	Pace  time.Duration `default:"1s" help:"Assumed time between two requests of a session that has no recorded times."`
	embedworker.Embedding
}

// files returns the session files at the paths; without paths, those of agents on this machine.
func (c *scanned) files(paths []string) (files []scan.File, err error) {
	if len(paths) == 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		if files, err = scan.Home(home, os.Getenv, c.from()); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no agent keeps sessions below %s; name files or folders, such as exports of OpenTelemetry, LiteLLM, Langfuse or Helicone", home)
		}
		return files, nil
	}
	for _, path := range paths {
		found, err := scan.At(path, c.from())
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file with sessions in %s", strings.Join(paths, ", "))
	}
	return files, nil
}

func (c *scanned) from() time.Time {
	if c.Since == 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(c.Since))
}

func (c *scanned) config() scan.Config {
	worker := embedworker.DefaultConfig()
	worker.Embedding = c.Embedding
	return scan.Config{Embedworker: worker, Since: c.from(), Pace: c.Pace}
}

// run scans files with a bundle, and shows a progress bar.
func (c *scanned) run(ctx context.Context, std streams, files []scan.File, policies string) (*scan.Report, error) {
	service.TuneRuntime()
	cfg := c.config()
	cfg.Policies = policies
	var total int64
	for _, f := range files {
		total += f.Size
	}
	bar := newBar(std.err, total, isTerminal(std.err))
	var mu sync.Mutex
	cfg.Progress = func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		_ = bar.Add64(n) // a terminal that cannot be written to shows no bar
	}
	report, err := scan.Files(ctx, files, cfg)
	_ = bar.Exit()
	_ = bar.Clear()
	return report, err
}

type scanFindCmd struct {
	scanned
	formatted
	Paths    []string `arg:"" optional:"" name:"path" help:"Files and folders with agent sessions, recordings or exports. Default: the sessions of Claude Code, Codex, Gemini CLI, opencode and Copilot CLI on this machine."`
	Policies []string `type:"existingfile" sep:"none" placeholder:"FILE" help:"Policy bundle, YAML or JSON. Default: the default policy."`
	Beside   string   `env:"-" type:"existingfile" xor:"output" placeholder:"FILE" help:"Second bundle: list the sessions that the two bundles treat differently."`
	HTML     string   `env:"-" name:"html" type:"path" xor:"output" placeholder:"FILE" help:"Write a page that shows what each loop repeats. Home folders, keys and addresses are masked."`
	Raw      bool     `env:"-" help:"Mask only keys in the page."`
}

// Run scans sessions and prints a report of about ten lines.
func (c *scanFindCmd) Run(ctx context.Context, std streams) error {
	if len(c.Policies) > 1 {
		return fmt.Errorf("--policies is given %d times: name the second bundle with --beside", len(c.Policies))
	}
	policies := strings.Join(c.Policies, "")
	files, err := c.files(c.Paths)
	if err != nil {
		return err
	}
	began := time.Now()
	report, err := c.run(ctx, std, files, policies)
	if err != nil {
		return err
	}
	if report.Sessions == 0 {
		return errors.New("the files contain no request; `unloop scan --help` lists what can be read")
	}
	if c.Beside != "" {
		other, err := c.run(ctx, std, files, c.Beside)
		if err != nil {
			return err
		}
		changes := scan.Compare(report, other)
		return c.show(std, changes, func(out *printer) { printChanges(out, policies, c.Beside, changes) })
	}
	if c.HTML != "" {
		if err := c.writePage(report); err != nil {
			return err
		}
	}
	return c.show(std, report, func(out *printer) { printScan(out, report, time.Since(began), c.HTML) })
}

func (c *scanFindCmd) writePage(report *scan.Report) (err error) {
	home := ""
	if !c.Raw {
		home, _ = os.UserHomeDir() // without one there is nothing to mask
	}
	f, err := os.OpenFile(c.HTML, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return scan.WritePage(f, report, scan.Masking{Home: home, Off: c.Raw})
}

// worst is the number of loops in the report.
const worst = 3

// printScan prints a report of about ten lines.
func printScan(out *printer, r *scan.Report, took time.Duration, page string) {
	var of []string
	for _, a := range r.Agents {
		of = append(of, fmt.Sprintf("%s %d", a.Title, a.Sessions))
	}
	when := ""
	if r.From != nil {
		when = fmt.Sprintf(", %s to %s", r.From.Local().Format(time.DateOnly), r.To.Local().Format(time.DateOnly))
	}
	out.printf("%s (%s)%s, read in %s.\n", plural(r.Sessions, "session"), strings.Join(of, ", "), when, terminal.Age(max(took, time.Second)))
	if r.Unreadable > 0 {
		out.printf("%s could not be read.\n", plural(r.Unreadable, "entry"))
	}
	if r.Looped == 0 {
		out.printf("None of them went round in circles.\n")
		return
	}
	out.printf("%s (%.0f %%) went round in circles: %s%s.\n", plural(r.Looped, "session"), 100*float64(r.Looped)/float64(r.Sessions), saved(&r.Wasted, &r.Spent), lasting(r.WastedSeconds))
	switch {
	case r.Stopped > 0:
		out.printf("Unloop would have hinted in %d of them and stopped %d, and saved %s.\n", r.Hinted, r.Stopped, saved(&r.Saved, &r.Spent))
	case r.Hinted > 0:
		out.printf("Unloop would have hinted in %d of them.\n", r.Hinted)
	}
	for i, l := range r.Loops[:min(worst, len(r.Loops))] {
		out.printf("  %d. %s\n", i+1, loopStory(l))
	}
	for _, a := range r.Agents {
		if a.Looped > 0 && a.Guard != "" {
			out.printf("Guard %s from now on: %s\n", a.Title, a.Guard)
			break
		}
	}
	if page == "" {
		out.printf("What they repeated, side by side: --html FILE\n")
	}
}

// loopStory describes a loop in one line.
func loopStory(l *scan.Loop) string {
	told := l.Text
	if what := l.What(); what != "" {
		told = "`" + what + "`: " + told
	}
	told += lasting(l.Seconds) + dollars(l.Wasted.USD)
	if l.Did.Hinted > 0 {
		told += fmt.Sprintf("; hinted at request %d", l.Did.Hinted)
	}
	if l.Did.Stopped > 0 {
		told += fmt.Sprintf("; stopped at request %d", l.Did.Stopped)
	}
	return terminal.Clean(told + " (" + l.Name() + ")")
}

// lasting returns a duration after a comma; "" for less than a second.
func lasting(seconds float64) string {
	if took := scan.Lasting(seconds); took != "" {
		return ", " + took
	}
	return ""
}

// printChanges prints the sessions that another bundle treats differently.
func printChanges(out *printer, one, other string, changes []scan.Change) {
	if len(changes) == 0 {
		out.printf("Both bundles do the same with every session.\n")
		return
	}
	if one == "" {
		one = "the default policy"
	}
	t := terminal.NewTable(terminal.Column{Name: filepath.Base(one)}, terminal.Column{Name: filepath.Base(other)}, terminal.Column{Name: "SESSION"})
	for _, c := range changes {
		t.Row(c.One.String(), c.Other.String(), c.Session)
	}
	out.table(t)
}
