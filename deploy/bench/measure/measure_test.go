package measure

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

// recorded are results as if they had been measured.
func recorded(plan Plan, samples map[cell][]Reading, names ...string) *Results {
	return &Results{plan: plan, names: names, samples: samples}
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	t.Parallel()
	// The machine is slow in the second round and quick in the third.
	r := recorded(Plan{Levels: []int{1}}, map[cell][]Reading{
		{"a", 1}: {{perSecond: 200}, {perSecond: 20}, {perSecond: 4000}},
		{"b", 1}: {{perSecond: 100}, {perSecond: 10}, {perSecond: 1000}},
	}, "a", "b")
	times := func(a, b float64) float64 { return a / b }
	if got := r.compare("a", "b", 1, perSecond, times); got != 2 {
		t.Errorf("ratio %v, want 2: the median of 2, 2 and 4", got)
	}
	if got := median(r.values("a", 1, perSecond)); got != 200 {
		t.Errorf("median rate %v, want 200", got)
	}
	if got := r.compare("a", "nobody", 1, perSecond, times); got != 0 {
		t.Errorf("ratio to what was not measured is %v, want 0", got)
	}
}

func TestEachContenderIsDrivenAtEachLevelInEachRound(t *testing.T) {
	t.Parallel()
	var callers, ended atomic.Int64
	c := Contender{Name: "c", Caller: func(int, int) (Op, func()) {
		callers.Add(1)
		return func(context.Context) error { return nil }, func() { ended.Add(1) }
	}}
	r, err := Compare(t.Context(), Plan{Rounds: 2, Calls: 1, Levels: []int{1, 3}}, c)
	if err != nil {
		t.Fatal(err)
	}
	if callers.Load() != 3*(1+3) || ended.Load() != callers.Load() {
		t.Errorf("%d callers, %d of them ended; want 12 of 12: a warm-up and two rounds", callers.Load(), ended.Load())
	}
	if n := len(r.samples[cell{"c", 3}]); n != 2 || median(r.values("c", 3, perSecond)) <= 0 {
		t.Errorf("%d samples at 3 in flight: %v", n, r.samples)
	}
}

func TestContenderThatMostlyFailsIsNoResult(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	c := Contender{Name: "c", Caller: func(int, int) (Op, func()) {
		return func(context.Context) error { return broken }, nil
	}}
	if _, err := Compare(t.Context(), Plan{Rounds: 1, Calls: 1, Levels: []int{1}}, c); !errors.Is(err, broken) {
		t.Errorf("error %v, want what it broke with", err)
	}
}

func TestTablesShowEachLevelAndWhatABaseIs(t *testing.T) {
	t.Parallel()
	r := recorded(Plan{Levels: []int{1, 8}}, map[cell][]Reading{
		{"base", 1}: {{calls: 1, "x": 2}}, {"base", 8}: {{calls: 1, "x": 4}},
		{"ours", 1}: {{calls: 1, perSecond: 1, "x": 3}}, {"ours", 8}: {{calls: 1, perSecond: 1, "x": 10}},
	}, "base", "ours")
	var out strings.Builder
	x := Figure{Name: "x", Format: "%.1f", Of: "x"}
	r.Table("base", []Figure{x.Times(), x.More(), {Name: "y", Format: "%.1f", Of: "y"}, {Name: "%", Format: "%.2f", Of: "x", Share: true}}).Print(&out)
	want := `| at 1 / 8 | base            | ours                     |
| ---      | ---             | ---                      |
| x        | 2.0 / 4.0       | 3.0 / 10.0 (1.50 / 2.50) |
| x        | 2.0 / 4.0       | 3.0 / 10.0 (+1.0 / +6.0) |
| y        | –               | –                        |
| %        | 200.00 / 400.00 | 300.00 / 1000.00         |
`
	if out.String() != want {
		t.Errorf("table:\n%swant:\n%s", out.String(), want)
	}
	out.Reset()
	r.names = []string{"ours", "ours, old"}
	r.samples[cell{"ours, old", 1}], r.samples[cell{"ours, old", 8}] = []Reading{{perSecond: 2}}, []Reading{{perSecond: 4}}
	r.Against(", old", []Figure{Rate}).Print(&out)
	if want := "| at 1 / 8     | ours                |\n| ---          | ---                 |\n| operations/s | 1 / 1 (0.50 / 0.25) |\n"; out.String() != want {
		t.Errorf("table:\n%swant:\n%s", out.String(), want)
	}
}

func TestAPlanOfCallsIsTheSameWorkForAll(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	c := Contender{
		Name:  "c",
		Meter: func(context.Context) (Reading, error) { return Reading{"made": float64(made.Load())}, nil },
		Take:  func() Reading { return Reading{"taken": 7} },
		Caller: func(int, int) (Op, func()) {
			return func(context.Context) error { made.Add(1); return nil }, nil
		},
	}
	r, err := Compare(t.Context(), Plan{Rounds: 1, Calls: 50, Levels: []int{4}}, c)
	if err != nil {
		t.Fatal(err)
	}
	of := func(figure string) float64 { return median(r.values("c", 4, figure)) }
	if made.Load() != 100 || of(calls) != 50 || of("made") != 1 || of("taken") != 7 || r.mean("c", 4, "made") != 1 {
		t.Errorf("%d calls, samples %v; want 50 in the warm-up and 50 in the round", made.Load(), r.samples)
	}
}
