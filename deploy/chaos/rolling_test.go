package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/unloop/unloop/schemas/kit/freeport"
)

const (
	// settled is the time under load after the replacement of a part.
	settled = 500 * time.Millisecond
	// unhurried is the gateways' check timeout: a busy machine is not the fault of a part
	// that is replaced.
	unhurried = 500 * time.Millisecond
)

// rolls replace each part of a whole cluster by another process of it, one after the
// other.
var rolls = []fault{
	{name: "detectors", begin: rollEach(func(c *cluster) []*process { return c.detectors })},
	{name: "embedding workers", begin: rollEach(func(c *cluster) []*process { return c.workers })},
	{name: "notifiers", begin: rollEach(func(c *cluster) []*process { return c.notifiers })},
	{name: "gateways", begin: rollEach(func(c *cluster) []*process { return c.gateways })},
}

// rollServers restarts each server of a cluster of NATS as its operators do: in lame duck
// mode it hands over what it leads, and then closes its clients one by one. Rarely a stream
// is not handed over; the others then elect a leader after 4 to 9 s.
var rollServers = fault{name: "NATS servers", elects: true, begin: func(ctx context.Context, c *cluster) error {
	for _, s := range c.servers {
		s.ready = "/healthz" // whether its copies of all streams are current, too
		s.end(syscall.SIGUSR2)
		if err := c.run(ctx, s); err != nil {
			return err
		}
	}
	return nil
}}

// rollEach replaces processes, one after the other.
func rollEach(which func(*cluster) []*process) func(context.Context, *cluster) error {
	return func(ctx context.Context, c *cluster) error {
		all := which(c)
		for i := range all {
			next, err := c.replace(ctx, all[i])
			if err != nil {
				return err
			}
			all[i] = next
		}
		return nil
	}
}

// replace starts another process beside one, waits until that is ready, and ends the old
// one.
func (c *cluster) replace(ctx context.Context, old *process) (*process, error) {
	next := c.service(old.name+"+", slices.Clone(old.args[:len(old.args)-1])...)
	next.env = old.env
	gateway := slices.Contains(next.args, "--listen")
	if gateway {
		listen, err := freeport.Addr()
		if err != nil {
			return nil, err
		}
		next.args[next.listen()] = listen
	}
	next, err := c.start(ctx, next)
	if err != nil {
		return nil, err
	}
	if gateway {
		c.balancer.add(next)
	}
	old.end(syscall.SIGTERM)
	if gateway {
		c.balancer.remove(old)
	}
	return next, old.log.Close()
}

// startRest starts the other parts of a whole cluster.
func (c *cluster) startRest(ctx context.Context) error {
	c.hook = newHook()
	replicas := fmt.Sprint("--replicas=", len(c.servers))
	for i := range 2 {
		if _, err := c.startAs(ctx, &c.workers, c.service(fmt.Sprint("worker", i), "embedworker", "--nats", c.nats, replicas, "--embedder", "lexical")); err != nil {
			return err
		}
		if _, err := c.startAs(ctx, &c.notifiers, c.service(fmt.Sprint("notifier", i), "notifier", "--nats", c.nats, replicas, "--webhook", c.hook.URL, "--allow-cidr", "127.0.0.0/8")); err != nil {
			return err
		}
	}
	return nil
}

// rolling replaces each part of a whole cluster under load, and prints what clients saw.
// With the binary of a previous version it begins with that, goes on to this one part by
// part, and back again.
func (o options) rolling(ctx context.Context, dir string, out io.Writer) error {
	return with(ctx, cmp.Or(o.previous, o.binary), filepath.Join(dir, "rolling"), 3, unhurried, func(c *cluster) error {
		if err := c.startRest(ctx); err != nil {
			return err
		}
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "replaced in turn\trequests\tclient errors\tslowest\tundecided\tnot compared\tof one loop passed\tothers stopped\tevents lost\tmessages lost\texact afterwards\tno counts, texts written\tmachine\t")
		var missed []error
		for range o.rounds {
			missed = append(missed, c.rollAll(ctx, o, table))
		}
		return errors.Join(append(missed, table.Flush())...)
	})
}

func (c *cluster) rollAll(ctx context.Context, o options, table io.Writer) error {
	if o.previous == "" {
		return c.roll(ctx, append(slices.Clone(rolls), rollServers), settled, table)
	}
	this, err := filepath.Abs(o.binary)
	if err != nil {
		return fmt.Errorf("find the binary: %w", err)
	}
	previous := c.binary
	c.binary = this
	err = c.roll(ctx, mixed("to this version: "), o.hold, table)
	c.binary = previous
	return errors.Join(err, c.roll(ctx, mixed("back: "), o.hold, table))
}

// mixed returns the replacements of parts by those of another version.
func mixed(how string) (all []fault) {
	for _, f := range rolls {
		f.name, f.mixed = how+f.name, true
		all = append(all, f)
	}
	return all
}

// roll replaces parts, and requires that clients notice nothing.
func (c *cluster) roll(ctx context.Context, parts []fault, hold time.Duration, table io.Writer) error {
	var missed []error
	for _, f := range parts {
		r, err := c.during(ctx, f, hold)
		if err != nil {
			return errors.Join(append(missed, err)...)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%s, %s\t%s\t\n", r.name, r.requests, r.failed, r.slowest.Round(time.Millisecond), r.undecided, r.uncompared, r.passed, r.wronged, r.lost, r.untold, r.exact, r.elected.Round(time.Millisecond), r.unstored.Round(time.Millisecond), r.noise.Round(time.Millisecond))
		missed = append(missed, r.smooth(f.mixed))
	}
	return errors.Join(missed...)
}

// few returns the number of late requests to accept from a busy machine.
func (r result) few() int { return max(1, r.requests/50) }

// allowed is the number of requests that may pass without a decision: none, but a few
// while a server of NATS is restarted, or on a busy machine, and those that came while
// JetStream took no writes.
func (r result) allowed() int {
	meanwhile := int(r.elected / every)
	if r.noise <= noisy && r.name != rollServers.name {
		return meanwhile
	}
	return r.few() + meanwhile
}

// smooth returns the effects on clients of replacing a part. While detectors of two
// versions run, each may count what it is asked, and texts may not be compared.
func (r result) smooth(mixed bool) error {
	most := passes
	if mixed {
		most *= 2
	}
	var faults []error
	missed := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s replaced: "+format, append([]any{errGoal, r.name}, args...)...))
	}
	if r.failed > 0 {
		missed("%d client errors, such as %w", r.failed, r.example)
	}
	if r.undecided > r.allowed() {
		missed("%d requests without a decision, at most %d", r.undecided, r.allowed())
	}
	if most := r.few() + int(r.unstored/every); r.uncompared > most && !mixed {
		missed("%d texts were not compared, at most %d", r.uncompared, most)
	}
	// A request without a decision may have been counted or not.
	if r.passed > most+r.undecided || r.passed < passes-r.undecided {
		missed("%d requests of a loop passed, must be %d to %d", r.passed, passes, most)
	}
	if r.wronged > 0 {
		missed("%d requests of no loop were stopped", r.wronged)
	}
	if r.lost > 0 || r.untold > 0 {
		missed("%d loops without an event, %d without a message", r.lost, r.untold)
	}
	if !r.exact {
		missed("a loop was not stopped at its threshold afterwards")
	}
	return errors.Join(faults...)
}
