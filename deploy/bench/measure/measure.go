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
	// again, and a function that frees what it uses.
	Caller func(round, caller int) (op Op, end func(), err error)
	// Meter reads figures that grow while the contender works, such as its processor
	// time. What a sample adds to them is divided by its calls. It may be nil.
	Meter func(ctx context.Context) (Reading, error)
	// Take returns figures of the sample that has ended. It may be nil.
	Take func() Reading
}

// Reading has figures by name.
type Reading map[string]float64

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

// Sample is the result of one contender at one level in one round.
type Sample struct {
	// PerSecond is the rate of operations that succeeded.
	PerSecond float64
	// P50 and P99 are their latencies.
	P50, P99 time.Duration
	// Calls is the number of operations that succeeded, Failed that of the others.
	Calls, Failed int
	// Figures are the meter's, for each call, and those of Take.
	Figures Reading
}

// Results are all samples, by contender and level, in the order of the rounds.
type Results struct {
	plan    Plan
	names   []string
	samples map[cell][]Sample
}

type cell struct {
	name  string
	level int
}

// Compare measures the contenders.
func Compare(ctx context.Context, plan Plan, contenders ...Contender) (*Results, error) {
	res := &Results{plan: plan, samples: map[cell][]Sample{}}
	for _, c := range contenders {
		res.names = append(res.names, c.Name)
	}
	for round := range plan.Rounds + 1 {
		if err := res.round(ctx, round, rotate(contenders, round)); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// rotate returns the contenders in the order of a round; each begins with another one.
func rotate(all []Contender, by int) []Contender {
	by %= max(len(all), 1)
	return append(slices.Clone(all[by:]), all[:by]...)
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

// drive calls a contender with level callers for a while.
func (p Plan) drive(ctx context.Context, c Contender, round, level int) (Sample, error) {
	ops, end, err := c.callers(round, level)
	defer end()
	if err != nil {
		return Sample{}, err
	}
	before, err := c.read(ctx)
	if err != nil {
		return Sample{}, err
	}
	tallies := make([]tally, level)
	started := time.Now()
	more := p.more(started, level)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var callers sync.WaitGroup
	for i, op := range ops {
		callers.Go(func() { tallies[i] = repeat(ctx, op, more) })
	}
	callers.Wait()
	took := time.Since(started)
	after, err := c.read(ctx)
	if err != nil {
		return Sample{}, err
	}
	s, err := summarize(tallies, took)
	s.Figures = after.per(before, s.Calls+s.Failed)
	if c.Take != nil {
		maps.Copy(s.Figures, c.Take())
	}
	return s, err
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

// per returns the increase since another reading, divided by a number of calls.
func (r Reading) per(before Reading, calls int) Reading {
	out := Reading{}
	for name, value := range r {
		out[name] = (value - before[name]) / float64(max(calls, 1))
	}
	return out
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
		ops, ends = append(ops, op), append(ends, end)
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

// summarize returns an error if more operations failed than succeeded.
func summarize(tallies []tally, took time.Duration) (Sample, error) {
	var all []time.Duration
	var s Sample
	var first error
	for _, t := range tallies {
		all = append(all, t.latencies...)
		s.Failed += t.failed
		first = cmp.Or(first, t.err)
	}
	if s.Failed > len(all) {
		return s, fmt.Errorf("%d of %d operations did not succeed, such as: %w", s.Failed, s.Failed+len(all), first)
	}
	slices.Sort(all)
	s.Calls = len(all)
	s.PerSecond = float64(len(all)) / took.Seconds()
	s.P50, s.P99 = all[len(all)/2], all[len(all)*99/100]
	return s, nil
}

// Median returns the sample with the median rate, and the medians of its latencies.
func (r *Results) Median(name string, level int) Sample {
	samples := slices.Clone(r.samples[cell{name, level}])
	if len(samples) == 0 {
		return Sample{}
	}
	slices.SortFunc(samples, func(a, b Sample) int { return int(a.PerSecond - b.PerSecond) })
	middle := samples[len(samples)/2]
	middle.P50 = median(samples, func(s Sample) time.Duration { return s.P50 })
	middle.P99 = median(samples, func(s Sample) time.Duration { return s.P99 })
	middle.Figures = Reading{}
	for figure := range samples[0].Figures {
		middle.Figures[figure] = median(samples, func(s Sample) float64 { return s.Figures[figure] })
	}
	return middle
}

// mean returns the mean over all samples of one of the meter's figures, by call.
func (r *Results) mean(name string, level int, figure string) float64 {
	sum, calls := 0.0, 0
	for _, s := range r.samples[cell{name, level}] {
		sum += s.Figures[figure] * float64(s.Calls+s.Failed)
		calls += s.Calls + s.Failed
	}
	return sum / float64(max(calls, 1))
}

// Ratio returns the median over the rounds of a figure of two contenders' samples of the
// same round.
func (r *Results) Ratio(a, b string, level int, figure func(a, b Sample) float64) float64 {
	var all []pair
	other := r.samples[cell{b, level}]
	for i, s := range r.samples[cell{a, level}] {
		if i < len(other) {
			all = append(all, pair{s, other[i]})
		}
	}
	return median(all, func(p pair) float64 { return figure(p.a, p.b) })
}

// pair are two contenders' samples of one round.
type pair struct{ a, b Sample }

func median[S any, T ~int64 | ~float64](from []S, figure func(S) T) T {
	all := make([]T, len(from))
	for i, s := range from {
		all[i] = figure(s)
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
