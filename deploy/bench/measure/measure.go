// Package measure compares contenders side by side: each round calls every contender
// for a moment at each number of calls in flight, one after the other, so that other
// load of the machine affects all of them alike. Results are medians over the rounds,
// and ratios within a round.
//
// It does not know what it measures.
package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Op is one operation of a contender.
type Op func(ctx context.Context) error

// Contender is one of the compared things.
type Contender struct {
	Name string
	// Caller returns the operation of one caller of a round, which calls it again and
	// again, and a function that frees what it uses, nil for none.
	Caller func(round, caller int) (op Op, end func(), err error)
	// Meter reads figures that grow while the contender works, such as its processor
	// time. What a sample adds to them is divided by its calls. It may be nil.
	Meter func(ctx context.Context) (Reading, error)
	// Take returns figures of the sample that has ended. It may be nil.
	Take func() Reading
}

// Reading has figures by name: those of Meter and Take, and in a sample these.
type Reading map[string]float64

// The figures of each sample: operations a second, latencies in ms, and the operations that
// succeeded and failed. Only the first kind counts in the others.
const (
	perSecond = "per second"
	p50       = "p50"
	p99       = "p99"
	calls     = "calls"
	failed    = "failed"
)

// Plan says how much is measured.
type Plan struct {
	// Rounds is the number of rounds after one to warm up.
	Rounds int
	// Sample is the time of a contender at one level in one round.
	Sample time.Duration
	// Calls is the number of calls of a sample, if it is not 0: then each contender does
	// the same work, however long that takes.
	Calls int
	// Levels are the numbers of calls in flight.
	Levels []int
}

// Results are all samples, by contender and level, in the order of the rounds.
type Results struct {
	plan    Plan
	names   []string
	samples map[cell][]Reading
}

type cell struct {
	name  string
	level int
}

// Compare measures the contenders. Each round begins with another one.
func Compare(ctx context.Context, plan Plan, contenders ...Contender) (*Results, error) {
	res := &Results{plan: plan, samples: map[cell][]Reading{}}
	for _, c := range contenders {
		res.names = append(res.names, c.Name)
	}
	for round := range plan.Rounds + 1 {
		first := round % max(len(contenders), 1)
		if err := res.round(ctx, round, slices.Concat(contenders[first:], contenders[:first])); err != nil {
			return nil, err
		}
	}
	return res, nil
}

func (r *Results) round(ctx context.Context, round int, contenders []Contender) error {
	for _, level := range r.plan.Levels {
		for _, c := range contenders {
			sample, err := r.plan.drive(ctx, c, round, level)
			if err != nil {
				return fmt.Errorf("measure %s at %d in flight: %w", c.Name, level, err)
			}
			if round > 0 {
				at := cell{c.Name, level}
				r.samples[at] = append(r.samples[at], sample)
			}
		}
	}
	return nil
}

// tally is the result of one caller.
type tally struct {
	latencies []time.Duration
	failed    int
	err       error
}

// drive calls a contender with level callers for a while, and returns the sample.
func (p Plan) drive(ctx context.Context, c Contender, round, level int) (Reading, error) {
	ops, end, err := c.callers(round, level)
	defer end()
	if err != nil {
		return nil, err
	}
	before, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	tallies := make([]tally, level)
	started := time.Now()
	more := p.more(started, level)
	var callers sync.WaitGroup
	for i, op := range ops {
		callers.Go(func() { tallies[i] = repeat(ctx, op, more) })
	}
	callers.Wait()
	took := time.Since(started)
	after, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	sample, err := summarize(tallies, took)
	for name, value := range after {
		sample[name] = (value - before[name]) / (sample[calls] + sample[failed])
	}
	if c.Take != nil {
		maps.Copy(sample, c.Take())
	}
	return sample, err
}

// more returns a function that reports whether a caller calls once more, at a time. The
// first call of each caller needs no permission.
func (p Plan) more(started time.Time, callers int) func(now time.Time) bool {
	if p.Calls == 0 {
		until := started.Add(p.Sample)
		return until.After
	}
	var begun atomic.Int64
	return func(time.Time) bool { return begun.Add(1) <= int64(p.Calls-callers) }
}

func (c Contender) read(ctx context.Context) (Reading, error) {
	if c.Meter == nil {
		return nil, nil
	}
	return c.Meter(ctx)
}

// callers returns the operations of n callers, and a function that frees what they use.
func (c Contender) callers(round, n int) ([]Op, func(), error) {
	var ops []Op
	var ends []func()
	endAll := func() {
		for _, end := range ends {
			end()
		}
	}
	for i := range n {
		op, end, err := c.Caller(round, i)
		if err != nil {
			return nil, endAll, err
		}
		ops = append(ops, op)
		if end != nil {
			ends = append(ends, end)
		}
	}
	return ops, endAll, nil
}

// repeat calls op as long as there is more to do, at least once.
func repeat(ctx context.Context, op Op, more func(now time.Time) bool) (t tally) {
	for now := time.Now(); t.failed+len(t.latencies) == 0 || more(now); {
		err := op(ctx)
		after := time.Now()
		if err != nil {
			t.failed++
			t.err = cmp.Or(t.err, err)
		} else {
			t.latencies = append(t.latencies, after.Sub(now))
		}
		now = after
	}
	return t
}

// summarize returns the figures of a sample, and an error if more operations failed than
// succeeded.
func summarize(tallies []tally, took time.Duration) (Reading, error) {
	var all []time.Duration
	var fails int
	var first error
	for _, t := range tallies {
		all, fails, first = append(all, t.latencies...), fails+t.failed, cmp.Or(first, t.err)
	}
	sample := Reading{calls: float64(len(all)), failed: float64(fails), perSecond: float64(len(all)) / took.Seconds(), p50: Percentile(all, 50), p99: Percentile(all, 99)}
	if fails > len(all) {
		return sample, fmt.Errorf("%d of %d operations did not succeed, such as: %w", fails, fails+len(all), first)
	}
	return sample, nil
}

// Percentile sorts times, and returns a percentile of them in ms.
func Percentile(all []time.Duration, percent int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*percent/100].Seconds() * 1000
}

// values returns a figure of a contender in each round.
func (r *Results) values(name string, level int, figure string) (out []float64) {
	for _, s := range r.samples[cell{name, level}] {
		if value, ok := s[figure]; ok {
			out = append(out, value)
		}
	}
	return out
}

// median returns the median over the rounds of a figure.
func (r *Results) median(name string, level int, figure string) float64 {
	return median(r.values(name, level, figure))
}

// mean returns the mean over all calls of one of the meter's figures.
func (r *Results) mean(name string, level int, figure string) float64 {
	sum, n := 0.0, 0.0
	for _, s := range r.samples[cell{name, level}] {
		sum += s[figure] * (s[calls] + s[failed])
		n += s[calls] + s[failed]
	}
	return sum / max(n, 1)
}

// compare returns the median over the rounds of what two contenders' figures of one round
// are to each other.
func (r *Results) compare(a, b string, level int, figure string, with func(a, b float64) float64) float64 {
	var all []float64
	other := r.values(b, level, figure)
	for i, value := range r.values(a, level, figure) {
		if i < len(other) {
			all = append(all, with(value, other[i]))
		}
	}
	return median(all)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Failed returns the number of operations that failed and do not count.
func (r *Results) Failed() (n int) {
	for _, samples := range r.samples {
		for _, s := range samples {
			n += int(s[failed])
		}
	}
	return n
}
