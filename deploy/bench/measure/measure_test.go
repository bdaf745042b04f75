package measure

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// recorded are results as if they had been measured.
func recorded(plan Plan, samples map[cell][]Sample, names ...string) *Results {
	return &Results{plan: plan, names: names, samples: samples}
}

func faster(a, b Sample) float64 { return a.PerSecond / b.PerSecond }

func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	// The machine is slow in the second round and quick in the third.
	r := recorded(Plan{Levels: []int{1}}, map[cell][]Sample{
		{"a", 1}: {{PerSecond: 200}, {PerSecond: 20}, {PerSecond: 4000}},
		{"b", 1}: {{PerSecond: 100}, {PerSecond: 10}, {PerSecond: 1000}},
	}, "a", "b")
	if got := r.Ratio("a", "b", 1, faster); got != 2 {
		t.Errorf("ratio %v, want 2: the median of 2, 2 and 4", got)
	}
	if got := r.Median("a", 1).PerSecond; got != 200 {
		t.Errorf("median rate %v, want 200", got)
	}
	if got := r.Ratio("a", "nobody", 1, faster); got != 0 {
		t.Errorf("ratio to what was not measured is %v, want 0", got)
	}
}

func TestEachContenderIsDrivenAtEachLevelInEachRound(t *testing.T) {
	t.Parallel()
	var callers, ended atomic.Int64
	c := Contender{Name: "c", Caller: func(int, int) (Op, func(), error) {
		callers.Add(1)
		return func(context.Context) error { return nil }, func() { ended.Add(1) }, nil
	}}
	r, err := Compare(t.Context(), Plan{Rounds: 2, Sample: time.Millisecond, Levels: []int{1, 3}}, c)
	if err != nil {
		t.Fatal(err)
	}
	if callers.Load() != 3*(1+3) || ended.Load() != callers.Load() {
		t.Errorf("%d callers, %d of them ended; want 12 of 12: a warm-up and two rounds", callers.Load(), ended.Load())
	}
	if n := len(r.samples[cell{"c", 3}]); n != 2 || r.Median("c", 3).PerSecond <= 0 {
		t.Errorf("%d samples at 3 in flight, median %+v", n, r.Median("c", 3))
	}
}

func TestContenderThatMostlyFailsIsNoResult(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	c := Contender{Name: "c", Caller: func(int, int) (Op, func(), error) {
		return func(context.Context) error { return broken }, func() {}, nil
	}}
	if _, err := Compare(t.Context(), Plan{Rounds: 1, Sample: time.Millisecond, Levels: []int{1}}, c); !errors.Is(err, broken) {
		t.Errorf("error %v, want what it broke with", err)
	}
}

func TestTablesShowEachLevelAndWhatABaseIs(t *testing.T) {
	t.Parallel()
	r := recorded(Plan{Levels: []int{1, 8}}, map[cell][]Sample{
		{"base", 1}: {{Calls: 1, Figures: Reading{"x": 2}}}, {"base", 8}: {{Calls: 1, Figures: Reading{"x": 4}}},
		{"ours", 1}: {{Calls: 1, PerSecond: 1, Figures: Reading{"x": 3}}}, {"ours", 8}: {{Calls: 1, PerSecond: 1, Figures: Reading{"x": 10}}},
	}, "base", "ours")
	var out strings.Builder
	x := Read("x", "%.1f", "x", 10, Times)
	r.Table("base", []Figure{x, Read("y", "%.1f", "y", 1, nil), Share("%", "x")}).Markdown(&out)
	want := "| at 1 / 8 | base | ours |\n|---|---|---|\n| x | 20.0 / 40.0 | 30.0 / 100.0 (1.50 / 2.50) |\n| y | – | – |\n| % | 200.00 / 400.00 | 300.00 / 1000.00 |\n"
	if out.String() != want {
		t.Errorf("table:\n%swant:\n%s", out.String(), want)
	}
	out.Reset()
	r.names = []string{"ours", "ours, old"}
	r.samples[cell{"ours, old", 1}], r.samples[cell{"ours, old", 8}] = []Sample{{PerSecond: 2}}, []Sample{{PerSecond: 4}}
	r.Against(", old", []Figure{Rate}).Markdown(&out)
	if want := "| at 1 / 8 | ours |\n|---|---|\n| operations/s | 1 / 1 (0.50 / 0.25) |\n"; out.String() != want {
		t.Errorf("table:\n%swant:\n%s", out.String(), want)
	}
}

func TestAPlanOfCallsIsTheSameWorkForAll(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	c := Contender{
		Name:  "c",
		Meter: func(context.Context) (Reading, error) { return Reading{"calls": float64(calls.Load())}, nil },
		Take:  func() Reading { return Reading{"taken": 7} },
		Caller: func(int, int) (Op, func(), error) {
			return func(context.Context) error { calls.Add(1); return nil }, func() {}, nil
		},
	}
	r, err := Compare(t.Context(), Plan{Rounds: 1, Calls: 50, Levels: []int{4}}, c)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Median("c", 4); calls.Load() != 100 || s.Calls != 50 || s.Figures["calls"] != 1 || s.Figures["taken"] != 7 || r.mean("c", 4, "calls") != 1 {
		t.Errorf("%d calls, sample %+v; want 50 in the warm-up and 50 in the round", calls.Load(), s)
	}
}
