// Command chaos is `make chaos`: it runs NATS servers, detectors and gateways as
// processes of their own under a light load, breaks them one way after another,
// and prints for each fault what clients saw: errors, the slowest request, the
// share that passed unjudged, how long after the fault's end a loop was stopped
// again, and the loops without an event.
//
// It knows the services by their command line and ports, and what they store by
// package schemas.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// Goals under light load.
const (
	// checkTimeout is the gateways' default.
	checkTimeout = 50 * time.Millisecond
	// slack is what a request may take beyond the check timeout and beyond the
	// slowest one without a fault.
	slack = 50 * time.Millisecond
	// scheduling is what it may take beyond that on a machine where requests take
	// longer than noisy without a fault, or such that wait for nothing.
	scheduling, noisy = 250 * time.Millisecond, 20 * time.Millisecond
	// guardedWithin is how soon after a fault's end loops must be stopped again.
	guardedWithin = 5 * time.Second
)

// errGoal says that a fault had more effect than it may.
var errGoal = errors.New("a goal was missed")

// run runs the faults and prints the table.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	if len(args) > 0 && args[0] == serverRole {
		return serve(ctx, args[1:])
	}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	binary := flags.String("unloop", "bin/unloop", "the unloop binary")
	rounds := flags.Int("rounds", 1, "how often each fault is tried")
	soak := flags.Duration("soak", 0, "keep up the load without a fault for so long instead, and see that nothing grows")
	hold := flags.Duration("hold", 4*time.Second, "how long a fault lasts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "unloop-chaos-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if *soak > 0 {
		return with(ctx, *binary, dir, 1, func(c *cluster) error { return c.soak(ctx, *soak, out) })
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\trequests\tclient errors\tslowest\tunjudged\tguarded after\tevents lost\texact\t")
	var missed []error
	for _, of := range []struct {
		servers int
		faults  []fault
	}{{1, faults}, {3, leaderFaults}} {
		missed = append(missed, with(ctx, *binary, filepath.Join(dir, fmt.Sprint(of.servers)), of.servers, func(c *cluster) error {
			return c.runAll(ctx, of.faults, *rounds, *hold, table)
		}))
	}
	return errors.Join(append(missed, table.Flush())...)
}

// with runs a cluster for as long as it is used.
func with(ctx context.Context, binary, dir string, servers int, use func(*cluster) error) error {
	c, err := startCluster(ctx, binary, dir, servers)
	if err != nil {
		return err
	}
	defer c.stop()
	return use(c)
}

func (c *cluster) runAll(ctx context.Context, faults []fault, rounds int, hold time.Duration, table io.Writer) error {
	calm, err := c.during(ctx, fault{name: fmt.Sprintf("none, %d NATS", len(c.servers))}, hold)
	if err != nil {
		return err
	}
	calm.print(table)
	results, missed := []result{}, []error{}
	for range rounds {
		for _, f := range faults {
			if f.disk && c.disk == "" {
				fmt.Fprintf(table, "%s\tNOT TRIED: it needs the right to mount a file system\n", f.name)
				continue
			}
			r, err := c.during(ctx, f, hold)
			if err != nil {
				return err
			}
			r.print(table)
			results = append(results, r)
			calm.noise = max(calm.noise, r.noise)
		}
	}
	for _, r := range results {
		missed = append(missed, r.judge(calm))
	}
	return errors.Join(missed...)
}

// result is what clients saw of one fault.
type result struct {
	name     string
	requests int
	failed   int
	slowest  time.Duration
	// noise is the slowest request that waits for nothing but the machine.
	noise    time.Duration
	unjudged int
	guarded  time.Duration
	// elected is the part of guarded after which JetStream itself took writes again; 0
	// where it was not the fault.
	elected time.Duration
	lost    int
	exact   bool
	example error
}

func (r result) print(w io.Writer) {
	guarded := r.guarded.Round(10 * time.Millisecond).String()
	if r.elected > 0 {
		guarded += " (JetStream " + r.elected.Round(10*time.Millisecond).String() + ")"
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%.1f %%\t%s\t%d\t%v\t\n", r.name, r.requests, r.failed, r.slowest.Round(time.Millisecond),
		100*float64(r.unjudged)/float64(max(r.requests, 1)), guarded, r.lost, r.exact)
}

// judge compares a result with the goals, and with what was seen without a fault.
func (r result) judge(calm result) error {
	var faults []error
	missed := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s: "+format, append([]any{errGoal, r.name}, args...)...))
	}
	if r.failed > 0 {
		missed("%d client errors, such as %w", r.failed, r.example)
	}
	if limit := calm.slowestAllowed(); r.slowest > limit {
		missed("the slowest request took %s, at most %s", r.slowest, limit)
	}
	if limit := r.elected + guardedWithin; r.guarded > limit {
		missed("guarded after %s, at most %s", r.guarded, limit)
	}
	if r.lost > 0 {
		missed("%d loops that clients were told of have no event", r.lost)
	}
	if !r.exact {
		missed("a loop was not stopped at its threshold afterwards")
	}
	return errors.Join(faults...)
}

// slowestAllowed is how long a request may take in a fault on a machine that gives
// this result without one.
func (r result) slowestAllowed() time.Duration {
	base := max(r.slowest, r.noise)
	if base > noisy {
		base += scheduling
	}
	return base + checkTimeout + slack
}
