package main

import (
	"fmt"
	"slices"

	"github.com/unloop/unloop/deploy/bench/measure"
)

// printSessions prints a table with a column for each contender. Figures that are
// multiples of the base's have the ratio behind them.
func (b *bench) printSessions(res *measure.Results, base string, written map[string]writes) {
	t := &measure.Table{Head: append([]string{"at " + res.Levels() + " in flight"}, res.Names()...)}
	for _, f := range sessionFigures {
		var beside *measure.Beside
		if f.ratio {
			beside = &measure.Beside{Base: base, Format: "%.2f", Compare: multiple(f.value)}
		}
		res.Row(t, f.name, f.format, f.value, beside)
	}
	row := []string{"bytes (writes) to JetStream per request"}
	for _, name := range res.Names() {
		if w, ok := written[name]; ok {
			row = append(row, w.String())
		} else {
			row = append(row, "–")
		}
	}
	t.Add(row...)
	b.print(t)
	for _, name := range res.Names() {
		if w, ok := written[name]; ok {
			fmt.Fprintf(b.out, "%s, to JetStream per request: %s\n", name, w.byBucket())
		}
	}
	for _, name := range res.Names() {
		for _, level := range b.inFlight {
			if stopped := res.Mean(name, level, figureStopped); stopped > 0 {
				fmt.Fprintf(b.out, "%s refused %.2f %% at %d in flight.\n", name, 100*stopped, level)
			}
		}
	}
	if n := res.Failed(); n > 0 {
		fmt.Fprintf(b.out, "%d requests failed and do not count.\n", n)
	}
}

// sessionFigures are the rows of a table of sessions.
var sessionFigures = []struct {
	name, format string
	ratio        bool
	value        func(measure.Sample) float64
}{
	{p50Name, "%.2f", false, p50},
	{"p99 ms", "%.2f", false, func(s measure.Sample) float64 { return s.P99.Seconds() * 1000 }},
	{"requests/s", "%.0f", true, func(s measure.Sample) float64 { return s.PerSecond }},
	{"processor ms per request", "%.3f", true, perCall(figureProcessor)},
	{"allocations per request", "%.0f", true, perCall(figureAllocations)},
	{"KB allocated per request", "%.1f", true, func(s measure.Sample) float64 { return s.Figures[figureAllocated] / 1000 }},
	{"unjudged %", "%.2f", false, func(s measure.Sample) float64 { return 100 * s.Figures[figureUnjudged] }},
	{"texts not compared %", "%.2f", false, func(s measure.Sample) float64 { return 100 * s.Figures[figureUncompared] }},
}

const p50Name = "p50 ms"

func p50(s measure.Sample) float64 { return s.P50.Seconds() * 1000 }

func perCall(figure string) func(measure.Sample) float64 {
	return func(s measure.Sample) float64 { return s.Figures[figure] }
}

// multiple returns a function for one sample's figure as a multiple of another's.
func multiple(figure func(measure.Sample) float64) func(a, b measure.Sample) float64 {
	return func(a, b measure.Sample) float64 { return figure(a) / figure(b) }
}

// printAgainst prints the figures as multiples of the other binary's, if there is one.
func (b *bench) printAgainst(res *measure.Results, names ...string) {
	if b.against == "" {
		return
	}
	t := &measure.Table{Head: append([]string{"multiple of the other binary's, at " + res.Levels()}, names...)}
	for _, f := range sessionFigures {
		row := []string{f.name}
		for _, name := range names {
			row = append(row, res.Ratios(name, name+againstSuffix, "%.2f", multiple(f.value)))
		}
		if f.ratio || f.name == p50Name {
			t.Add(row...)
		}
	}
	fmt.Fprintln(b.out)
	b.print(t)
}

// sessionTargets prints where the first of the binaries stands.
func (b *bench) sessionTargets(res *measure.Results, written map[string]writes) {
	for _, of := range []struct {
		name     string
		one, all float64 // multiples of the bare proxy's processor time, at 1 and at most in flight
	}{{nameExact, 2, 1.5}, {nameUnloop, 3, 2}} {
		for _, at := range []struct {
			level int
			most  float64
		}{{1, of.one}, {64, of.all}} {
			if slices.Contains(b.inFlight, at.level) {
				measure.PrintTargets(b.out, res.AtMost(fmt.Sprintf("%s: at most %.1f times the bare proxy's processor time", of.name, at.most),
					of.name, nameProxy, at.most, "×", measure.Multiple(figureProcessor), at.level))
			}
		}
	}
	if slices.Contains(b.inFlight, 1) {
		measure.PrintTargets(b.out, res.AtMost(nameUnloop+": p50 at most 0.2 ms over the bare proxy's",
			nameUnloop, nameProxy, 0.2, " ms", func(a, b measure.Sample) float64 { return p50(a) - p50(b) }, 1))
	}
	if slices.Contains(b.inFlight, 64) {
		measure.PrintTargets(b.out, res.AtLeast(nameUnloop+": at least 0.65 of the bare proxy's rate", nameUnloop, nameProxy, 0.65, 64))
	}
	measure.PrintTargets(b.out,
		measure.Target{Text: nameUnloop + ": every request judged", Levels: b.inFlight, Unit: " %", Figure: func(level int) (float64, bool) {
			judged := 100 * (1 - res.Mean(nameUnloop, level, figureUnjudged))
			return judged, judged == 100
		}},
		measure.Target{Text: nameUnloop + ": at most 2 KB to JetStream per request", Levels: []int{writesLevel}, Unit: " KB", Figure: func(int) (float64, bool) {
			kb := written[nameUnloop].bytes / 1000
			return kb, kb <= 2
		}})
}
