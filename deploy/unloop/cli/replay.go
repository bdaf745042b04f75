package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/deploy/scan"
	"github.com/unloop/unloop/embedworker"
)

type replayCmd struct {
	Files     []string      `arg:"" name:"file" help:"Recordings, message sessions, LiteLLM logs or OpenTelemetry exports, as JSON or JSON lines; - reads standard input."`
	Policies  string        `type:"path" placeholder:"FILE" help:"Policy bundle, YAML or JSON. Default: the default policy."`
	Overrides string        `type:"path" placeholder:"FILE" help:"Blocks and exemptions, as printed by unloop overrides --json. They replace those in the recordings."`
	Pace      time.Duration `default:"1s" help:"Assumed time between two requests of a session that has no recorded times."`
	All       bool          `env:"-" help:"List every loop and session."`
	Labels    string        `env:"-" type:"existingfile" placeholder:"FILE" help:"Labels of the sessions, written by unloop scan label: print how well each detector does, instead of the report."`
	formatted
	embedworker.Embedding

	requests int // shown by the progress bar
}

// listed is the length of lists without --all.
const listed = 20

// Run evaluates recorded requests and reports what would have been stopped.
func (c *replayCmd) Run(ctx context.Context, std streams) (err error) {
	if c.Pace < 0 {
		return fmt.Errorf("--pace is %s, must not be negative", c.Pace)
	}
	if c.Labels != "" {
		return c.measure(ctx, std)
	}
	overrides, err := readOverrides(c.Overrides)
	if err != nil {
		return err
	}
	worker := embedworker.DefaultConfig()
	worker.Embedding = c.Embedding
	run, err := replay.New(ctx, replay.Config{Policies: c.Policies, Pace: c.Pace, Overrides: overrides, Embedworker: worker})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	bar := newBar(std.err, sizeOf(c.Files), isTerminal(std.err))
	for _, name := range c.Files {
		if err = c.replay(ctx, run, name, bar, std.err); err != nil {
			break
		}
	}
	_ = bar.Exit() // a terminal that cannot be written to shows no bar
	_ = bar.Clear()
	if err != nil {
		return err
	}
	report := run.Report()
	if report.Requests == 0 {
		return errors.New("the input contains no request; `unloop replay --help` lists what can be read")
	}
	limit := listed
	if c.All {
		limit = math.MaxInt
	}
	return c.show(std, report, func(out *printer) { printReport(out, report, limit) })
}

// measure compares the findings with labels.
func (c *replayCmd) measure(ctx context.Context, std streams) error {
	labels, err := scan.ReadLabels(c.Labels)
	if err != nil {
		return fmt.Errorf("--labels %s: %w", c.Labels, err)
	}
	s := scanned{Pace: c.Pace, Embedding: c.Embedding}
	files, err := s.files(c.Files)
	if err != nil {
		return err
	}
	report, err := s.run(ctx, std, files, c.Policies)
	if err != nil {
		return err
	}
	scores, unread := scan.Measure(report, labels)
	if unread == len(labels) {
		return fmt.Errorf("--labels %s: none is about a session in %s; labels name files by their path from the folder of the labels", c.Labels, strings.Join(c.Files, ", "))
	}
	if unread > 0 {
		fmt.Fprintf(std.err, "%d of %d labels are about sessions that were not read.\n", unread, len(labels))
	}
	return c.show(std, scores, func(out *printer) { printScores(out, scores) })
}

// newBar returns a progress bar for a number of bytes; 0 means unknown.
func newBar(w io.Writer, total int64, visible bool) *progressbar.ProgressBar {
	return progressbar.NewOptions64(cmp.Or(total, -1), progressbar.OptionSetWriter(w), progressbar.OptionSetVisibility(visible),
		progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionShowDescriptionAtLineEnd(), progressbar.OptionSetSpinnerChangeInterval(0))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// complaints is the number of unreadable entries to report for each file.
const complaints = 5

// replay evaluates one file. It reports and skips entries that cannot be read.
func (c *replayCmd) replay(ctx context.Context, run *replay.Run, name string, bar *progressbar.ProgressBar, warn io.Writer) error {
	in, err := open(name)
	if err != nil {
		return fmt.Errorf("read the recording: %w", err)
	}
	defer func() { _ = in.Close() }() // it was only read
	faults := 0
	for q, err := range logs.InOrder(logs.Open(bufio.NewReader(io.TeeReader(in, bar)))) {
		switch {
		case err != nil:
			err = run.Unreadable(err)
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			if q.Answer == nil {
				c.requests++
				bar.Describe(plural(c.requests, "request"))
			}
			if err = run.Request(ctx, name, &q); errors.Is(err, context.Canceled) {
				return err
			}
		}
		if err != nil {
			if faults++; faults <= complaints {
				_ = bar.Clear()
				fmt.Fprintf(warn, "%s: %v\n", name, err)
			}
		}
	}
	return nil
}

// open opens a file; "-" is standard input.
func open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(name)
}

// sizeOf returns the total size of files in bytes, 0 if it is unknown.
func sizeOf(names []string) int64 {
	var total int64
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		total += info.Size()
	}
	return total
}
