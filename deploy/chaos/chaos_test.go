// Package chaos (`make chaos`, `make soak`) runs NATS servers, detectors and gateways as processes of
// their own under a light load, breaks them in one way after another, and prints for
// each fault what clients saw: errors, the slowest request, the share of requests that
// passed without a decision, the time from the end of the fault until a loop was
// stopped again, and the loops without an event. It kills processes while many callers
// send exactly as often as they may: none may be stopped. It sends bursts of loops while
// the machine is busy with something else: hardly more may pass than the policy lets through. It gives the
// buckets of state more partitions while loops run: exactly as many requests of each may pass as before. Finally it replaces each part of a
// cluster by another process, optionally of another version, and checks that clients notice
// nothing.
//
// It knows the services by their command lines and ports, and their stores by package
// schemas.
package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/unloop/unloop/deploy/unloop/cli"
	"github.com/unloop/unloop/schemas/kit/service"
)

// TestMain lets the test's program be the parts of a cluster, too.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == serverRole:
		os.Exit(service.Program("chaos", serve))
	case os.Getenv(roleVariable) == "":
		os.Exit(m.Run())
	default:
		_ = os.Unsetenv(roleVariable)
		os.Exit(cli.Main(os.Args[1:]))
	}
}

// TestCluster breaks a cluster of real binaries, with the flags that the variable has.
func TestCluster(t *testing.T) {
	flags, ok := os.LookupEnv("UNLOOP_TEST_CHAOS")
	if !ok {
		t.Skip("make chaos breaks a cluster for minutes")
	}
	ctx, stop := service.Context()
	defer stop()
	if err := run(ctx, strings.Fields(flags), os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
}

// Limits under light load.
const (
	// checkTimeout is the gateways' default.
	checkTimeout = 50 * time.Millisecond
	// longest is how much longer a prompt may wait that a gateway has seen often.
	longest = time.Second
	// waits is how often a request may wait for the check timeout: it restarts with a
	// decision on an earlier request, so with the last one before a fault.
	waits = 2
	// slack is the time that a request may take beyond that and the slowest request
	// without a fault.
	slack = 50 * time.Millisecond
	// scheduling is additional time on a machine where requests without a fault, or
	// requests that wait for nothing, take longer than noisy.
	scheduling, noisy = 250 * time.Millisecond, 20 * time.Millisecond
	// guardedWithin is the time after the end of a fault within which loops must be
	// stopped again.
	guardedWithin = 5 * time.Second
)

// errGoal is the error for a fault with more effect than allowed.
var errGoal = errors.New("a goal was missed")

// options are the flags.
type options struct {
	binary, previous       string
	rounds, edges, growths int
	soak, hold             time.Duration
	// rollOnly, attackOnly, busyOnly and growOnly leave out the rest.
	rollOnly, attackOnly, busyOnly, growOnly bool
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.StringVar(&o.binary, "unloop", "../../bin/unloop", "the unloop binary")
	flags.IntVar(&o.rounds, "rounds", 1, "how often each fault is tried")
	flags.IntVar(&o.edges, "edges", 20_000, "how many callers send exactly as often as the policy lets them, while processes are killed")
	flags.IntVar(&o.growths, "growths", len(growths), "how many times the buckets of state get more partitions")
	flags.DurationVar(&o.soak, "soak", 0, "keep up the load without a fault for so long instead, and see that nothing grows")
	flags.DurationVar(&o.hold, "hold", 4*time.Second, "how long a fault lasts")
	flags.BoolVar(&o.rollOnly, "rolling", false, "only replace each part by another process of it")
	flags.BoolVar(&o.attackOnly, "attacks", false, "only attack the gateways as a hostile caller would")
	flags.BoolVar(&o.busyOnly, "busy", false, "only send bursts of loops on a busy machine")
	flags.BoolVar(&o.growOnly, "growing", false, "only give the buckets of state more partitions")
	flags.StringVar(&o.previous, "previous", "", "the unloop binary of another version: only replace each part of it by this version, and go back")
	return o, flags.Parse(args)
}

// run runs the faults and prints the tables.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "unloop-chaos-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	switch {
	case o.soak > 0:
		return with(ctx, o.binary, dir, 1, checkTimeout, func(c *cluster) error { return c.soak(ctx, o.soak, out) })
	case o.rollOnly || o.previous != "":
		return o.rolling(ctx, dir, out)
	case o.growOnly:
		return o.growing(ctx, dir, out)
	case o.attackOnly:
		return o.faults(ctx, dir, out, group{1, attacks})
	}
	busy := with(ctx, o.binary, filepath.Join(dir, "busy"), 1, checkTimeout, func(c *cluster) error { return c.busy(ctx, out) })
	if o.busyOnly {
		return busy
	}
	edges := with(ctx, o.binary, filepath.Join(dir, "edges"), 1, checkTimeout, func(c *cluster) error { return c.edges(ctx, o.edges, out) })
	return errors.Join(busy, edges, o.faults(ctx, dir, out, group{1, slices.Concat(faults, attacks)}, group{3, leaderFaults}), o.growing(ctx, dir, out), o.rolling(ctx, dir, out))
}

// group are faults of a cluster with a number of NATS servers.
type group struct {
	servers int
	faults  []fault
}

// faults breaks a cluster for each group of faults.
func (o options) faults(ctx context.Context, dir string, out io.Writer, groups ...group) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "fault\trequests\tclient errors\tslowest\tslowest of a loop\tundecided\tguarded after\tevents lost\texact\t")
	var missed []error
	for _, of := range groups {
		missed = append(missed, with(ctx, o.binary, filepath.Join(dir, fmt.Sprint(of.servers)), of.servers, checkTimeout, func(c *cluster) error {
			return c.runAll(ctx, of.faults, o.rounds, o.hold, table)
		}))
	}
	return errors.Join(append(missed, table.Flush())...)
}

// with starts a cluster, calls use and stops the cluster.
func with(ctx context.Context, binary, dir string, servers int, patience time.Duration, use func(*cluster) error) error {
	c, err := startCluster(ctx, binary, dir, servers, patience)
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
		missed = append(missed, r.check(calm))
	}
	return errors.Join(missed...)
}

// result is the effect of one fault on clients.
type result struct {
	name     string
	requests int
	failed   int
	// slowest is the longest time of a prompt that did not loop, slowestLoop that of one that
	// did and may wait for longer.
	slowest, slowestLoop time.Duration
	// noise is the slowest request that waits for nothing: the delay of the machine.
	noise     time.Duration
	undecided int
	guarded   time.Duration
	// elected is how long JetStream took no writes, for a fault that heals since its
	// beginning; 0 for faults that do not stop it.
	elected time.Duration
	// unstored is how long it took no texts.
	unstored time.Duration
	lost     int
	exact    bool
	example  error
	// passed are the requests of the loop that were not stopped.
	passed int
	// wronged are the other requests that were stopped.
	wronged int
	// uncompared are the requests whose text was compared with no other.
	uncompared int
	// untold are the loops without a message from a notifier.
	untold int
	// slower and decided are the fault's.
	slower  time.Duration
	decided bool
}

func (r result) print(w io.Writer) {
	guarded := r.guarded.Round(10 * time.Millisecond).String()
	if r.elected > 0 {
		guarded += " (JetStream " + r.elected.Round(10*time.Millisecond).String() + ")"
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%.1f %%\t%s\t%d\t%v\t\n", r.name, r.requests, r.failed, r.slowest.Round(time.Millisecond), r.slowestLoop.Round(time.Millisecond),
		100*float64(r.undecided)/float64(max(r.requests, 1)), guarded, r.lost, r.exact)
}

// check compares a result with the limits, and with the result without a fault.
func (r result) check(calm result) error {
	var faults []error
	missed := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s: "+format, append([]any{errGoal, r.name}, args...)...))
	}
	if r.failed > 0 {
		missed("%d client errors, such as %w", r.failed, r.example)
	}
	if limit := calm.slowestAllowed() + r.slower; r.slowest > limit {
		missed("the slowest request took %s, at most %s", r.slowest, limit)
	}
	if limit := calm.slowestAllowed() + r.slower + longest; r.slowestLoop > limit {
		missed("the slowest request of a loop took %s, at most %s", r.slowestLoop, limit)
	}
	if most := r.few(); r.decided && r.undecided > most {
		missed("%d requests without a decision, at most %d", r.undecided, most)
	}
	if r.decided && r.wronged > 0 {
		missed("%d requests of no loop were stopped", r.wronged)
	}
	if limit := r.elected + guardedWithin; r.guarded > limit {
		missed("guarded after %s, at most %s", r.guarded, limit)
	}
	if r.lost > 0 {
		missed("%d reported loops have no event", r.lost)
	}
	if !r.exact {
		missed("a loop was not stopped at its threshold afterwards")
	}
	return errors.Join(faults...)
}

// slowestAllowed returns how long a request may take during a fault on a machine with
// this result without a fault.
func (r result) slowestAllowed() time.Duration {
	base := max(r.slowest, r.noise)
	if base > noisy {
		base += scheduling
	}
	return base + waits*checkTimeout + slack
}
