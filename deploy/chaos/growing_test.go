package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/unloop/unloop/schemas/kit/pause"
)

// growths are the numbers of partitions that the buckets of state get one after the other.
var growths = []int{4, 8}

// pace is how often a loop sends its prompt, and how often a loop of the pace begins.
type pace struct{ each, begins time.Duration }

// paces are those of loops that are in one phase of a growth, and of loops that go through
// several; all send within the window of the policy.
var paces = []pace{{400 * time.Millisecond, 200 * time.Millisecond}, {7 * time.Second, 500 * time.Millisecond}}

const (
	// loopSize is how many requests a loop has.
	loopSize = passes + 2
	// growWithin bounds a growth.
	growWithin = 3 * time.Minute
)

// loops counts what became of loops.
type loops struct {
	mu            sync.Mutex
	all           tally
	began, exact  int
	least, most   int
	lastRejected  []string
	stillRejected int
}

// growing gives the buckets of state more partitions while loops run, and prints how many
// requests of each loop passed.
func (o options) growing(ctx context.Context, dir string, out io.Writer) error {
	return with(ctx, o.binary, filepath.Join(dir, "growing"), 3, unhurried, func(c *cluster) error {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "partitions\ttook\trequests\tclient errors\tslowest of a loop\tundecided\tloops\texact\tpassed\tstill blocked afterwards\t")
		before, missed := 1, []error(nil)
		for _, to := range growths[:min(max(o.growths, 0), len(growths))] {
			took, l, err := c.grow(ctx, to)
			if err != nil {
				return errors.Join(append(missed, err)...)
			}
			fmt.Fprintf(table, "%d to %d\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d to %d\t%d of %d\t\n", before, to, took.Round(time.Second), l.all.requests, l.all.failed,
				l.all.slowestLoop.Round(time.Millisecond), l.all.undecided, l.began, l.exact, l.least, l.most, l.stillRejected, len(l.lastRejected))
			missed, before = append(missed, l.check(to)), to
		}
		return errors.Join(append(missed, table.Flush())...)
	})
}

// grow runs a growth, and loops from before its beginning until after its end.
func (c *cluster) grow(ctx context.Context, partitions int) (took time.Duration, l *loops, err error) {
	l = &loops{all: tally{loops: map[string]bool{}}, least: loopSize}
	beginning, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	for _, p := range paces {
		running.Go(func() {
			for n := 0; pause.For(beginning, p.begins) == nil; n++ {
				running.Go(func() { c.loop(ctx, l, p.each) })
			}
		})
	}
	began := time.Now()
	if err = pause.For(ctx, settled); err == nil {
		err = c.initialize(ctx, partitions)
	}
	took = time.Since(began)
	_ = pause.For(ctx, settled) // an end of the context is seen by the requests
	stop()
	running.Wait()
	for _, text := range l.lastRejected {
		if a := c.send(ctx, c.next(), text); a.rejected {
			l.stillRejected++
		}
	}
	return took, l, errors.Join(err, ctx.Err())
}

// initialize runs the command that an operator gives.
func (c *cluster) initialize(ctx context.Context, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, growWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, "nats", "init", "--nats", c.nats, fmt.Sprint("--replicas=", len(c.servers)), fmt.Sprint("--partitions=", partitions))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, roleVariable + "=" + os.Getenv(roleVariable)}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("grow to %d partitions: %w: %s", partitions, err, said)
	}
	return nil
}

// loop sends a prompt as often as a loop has requests.
func (c *cluster) loop(ctx context.Context, l *loops, each time.Duration) {
	text := fmt.Sprint("the same prompt while partitions grow, number ", c.next())
	passed, last := 0, answer{}
	for n := range loopSize {
		if n > 0 && pause.For(ctx, each) != nil {
			return
		}
		last = c.send(ctx, c.next(), text)
		l.all.note(last, true)
		if !last.rejected {
			passed++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began++
	l.least, l.most = min(l.least, passed), max(l.most, passed)
	if passed == passes {
		l.exact++
	}
	if last.rejected {
		l.lastRejected = append(l.lastRejected[max(0, len(l.lastRejected)-9):], text)
	}
}

// check returns the error for loops that were not stopped where the policy says so.
func (l *loops) check(partitions int) error {
	switch {
	case l.all.failed > 0:
		return fmt.Errorf("%w: to %d partitions: %d client errors, such as %w", errGoal, partitions, l.all.failed, l.all.example)
	case l.began == 0 || l.exact < l.began-l.all.undecided:
		return fmt.Errorf("%w: to %d partitions: %d of %d loops were exact, with %d requests undecided", errGoal, partitions, l.exact, l.began, l.all.undecided)
	case l.all.undecided > l.all.few():
		return fmt.Errorf("%w: to %d partitions: %d requests undecided, at most %d", errGoal, partitions, l.all.undecided, l.all.few())
	case l.stillRejected < len(l.lastRejected):
		return fmt.Errorf("%w: to %d partitions: %d of %d blocks stand", errGoal, partitions, l.stillRejected, len(l.lastRejected))
	}
	return nil
}
