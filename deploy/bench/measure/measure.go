// Package measure compares contenders side by side. Each round drives every contender at
// each number of calls in flight, one after the other, so that other load on the machine
// affects all of them alike. Results are medians over the rounds; ratios are
// taken within a round.
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

// Contender is one of the things that are compared.
type Contender struct {
	Name string
	// Caller returns the operation that a caller repeats in a round, and a function that
	// frees what it uses, or nil.
	Caller func(round, caller int) (op Op, end func())
	// Meter reads counters, such as processor time. Their growth in a sample is divided by
	// the sample's calls. It may be nil.
	Meter func(ctx context.Context) (Reading, error)
	// Take returns further figures of the sample that has just ended. It may be nil.
	Take func() Reading
}

// Reading has figures by name.
type Reading map[string]float64

// The figures of every sample: operations per second and latencies in ms, both of those that
// succeeded, and the numbers that succeeded and failed.
const (
	perSecond = "per second"
	p50       = "p50"
	p99       = "p99"
	calls     = "calls"
	failed    = "failed"
)

// Plan says how much is measured.
type Plan struct {
	// Rounds is the number of rounds, without the first, which warms up.
	Rounds int
	// Calls is the number of calls of a sample: a contender at one level in one round. Each
	// caller makes at least one.
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

// Compare measures the contenders. Each round begins with the next one.
func Compare(ctx context.Context, plan Plan, contenders ...Contender) (*Results, error) {
	res := &Results{plan: plan, samples: map[cell][]Reading{}}
	for _, c := range contenders {
		res.names = append(res.names, c.Name)
	}
	for round := range plan.Rounds + 1 {
		first := round % max(len(contenders), 1)
		for _, level := range plan.Levels {
			for _, c := range slices.Concat(contenders[first:], contenders[:first]) {
				sample, err := plan.drive(ctx, c, round, level)
				if err != nil {
					return nil, fmt.Errorf("measure %s at %d in flight: %w", c.Name, level, err)
				}
				if round > 0 {
					at := cell{c.Name, level}
					res.samples[at] = append(res.samples[at], sample)
				}
			}
		}
	}
	return res, nil
}

// tally is the result of one caller.
type tally struct {
	latencies []time.Duration
	failed    int
	err       error
}

// drive calls a contender with level callers and returns the sample.
func (p Plan) drive(ctx context.Context, c Contender, round, level int) (Reading, error) {
	ops, ends := make([]Op, level), make([]func(), level)
	for i := range ops {
		ops[i], ends[i] = c.Caller(round, i)
	}
	defer func() {
		for _, end := range ends {
			if end != nil {
				end()
			}
		}
	}()
	before, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	tallies := make([]tally, level)
	started := time.Now()
	var begun atomic.Int64
	more := func() bool { return begun.Add(1) <= int64(p.Calls-level) }
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

func (c Contender) read(ctx context.Context) (Reading, error) {
	if c.Meter == nil {
		return nil, nil
	}
	return c.Meter(ctx)
}

// repeat calls op once, and again as long as there is more to do.
func repeat(ctx context.Context, op Op, more func() bool) (t tally) {
	for again := true; again; again = more() {
		began := time.Now()
		if err := op(ctx); err != nil {
			t.failed++
			t.err = cmp.Or(t.err, err)
		} else {
			t.latencies = append(t.latencies, time.Since(began))
		}
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

// Percentile sorts durations and returns a percentile of them in ms.
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

// mean returns the mean over all calls of one of the meter's figures.
func (r *Results) mean(name string, level int, figure string) float64 {
	sum, n := 0.0, 0.0
	for _, s := range r.samples[cell{name, level}] {
		sum += s[figure] * (s[calls] + s[failed])
		n += s[calls] + s[failed]
	}
	return sum / max(n, 1)
}

// compare returns the median over the rounds of a comparison of two contenders' figures
// within a round.
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
