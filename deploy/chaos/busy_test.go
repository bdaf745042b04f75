package chaos

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// burstLoops are the loops that are sent one after the other, burstSize the requests of
	// each that are sent at once.
	burstLoops, burstSize = 25, 100
	// busyPasses is how many requests of a loop may pass on a busy machine: the policy's, and
	// two that came first and had no decision in time.
	busyPasses = passes + 2
	// busyFor bounds the work beside the bursts.
	busyFor = 2 * time.Minute
)

// busy sends bursts of loops while twice as many processes as there are processors do nothing
// but work, and prints how many requests of each loop passed.
func (c *cluster) busy(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, busyFor)
	defer cancel()
	stop, err := work(2 * runtime.NumCPU())
	defer stop()
	if err != nil {
		return fmt.Errorf("keep the machine busy: %w", err)
	}
	var most, exact int
	all := tally{loops: map[string]bool{}}
	for range burstLoops {
		passed := c.burst(ctx, &all)
		most = max(most, passed)
		if passed == passes {
			exact++
		}
		_ = pause.For(ctx, every)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "machine\tloops\trequests\tclient errors\tslowest\tundecided\texact loops\tmost passed\t")
	fmt.Fprintf(table, "busy, %s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t\n", checkTimeout, burstLoops, all.requests, all.failed, all.slowestLoop.Round(time.Millisecond), all.undecided, exact, most)
	if err := table.Flush(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case all.failed > 0:
		return fmt.Errorf("%w: %d client errors on a busy machine, such as %w", errGoal, all.failed, all.example)
	case most > busyPasses:
		return fmt.Errorf("%w: %d requests of a loop passed on a busy machine, at most %d", errGoal, most, busyPasses)
	}
	return nil
}

// work starts processes that do nothing but work until they are stopped, or this process
// ends.
func work(processes int) (stop func(), err error) {
	var started []func()
	stop = func() {
		for _, end := range started {
			end()
		}
	}
	for range processes {
		cmd := exec.Command("sh", "-c", "while :; do :; done & read end; kill $!")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return stop, err
		}
		started = append(started, func() { _ = in.Close(); _ = cmd.Wait() }) // it ends with the kill
	}
	return stop, nil
}

// burst sends all requests of a new loop at once, and returns how many passed.
func (c *cluster) burst(ctx context.Context, all *tally) int {
	text := fmt.Sprint("the same prompt in a burst, number ", c.next())
	var passed atomic.Int32
	var clients sync.WaitGroup
	for n := range burstSize {
		clients.Go(func() {
			a := c.send(ctx, n, text)
			all.note(a, true)
			if !a.rejected {
				passed.Add(1)
			}
		})
	}
	clients.Wait()
	return int(passed.Load())
}
