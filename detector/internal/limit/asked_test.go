package limit

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/checkpb"
)

// left is what is left of a bucket and was spent of a budget.
func left(s State) string { return fmt.Sprintf("%g left, %g spent", s.Level, s.Spent) }

func TestCheckAndItsRequestTakeOnce(t *testing.T) {
	t.Parallel()
	p := bucketOf(1, 100)
	p.Budget = &Budget{Amount: 100, Period: time.Hour, Stages: []Stage{{1, reject, 0}}}
	type step struct {
		id     string
		asked  bool
		cost   float64
		after  time.Duration
		passes bool
	}
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"the same cost":                 {[]step{{"a", true, 60, 0, true}, {"a", false, 60, 0, true}}, "40 left, 60 spent"},
		"a larger one":                  {[]step{{"a", true, 60, 0, true}, {"a", false, 70, 0, true}}, "30 left, 70 spent"},
		"a smaller one":                 {[]step{{"a", true, 60, 0, true}, {"a", false, 10, 0, true}}, "90 left, 10 spent"},
		"a larger one than is left":     {[]step{{"a", true, 60, 0, true}, {"a", false, 170, 0, false}}, "100 left, 0 spent"},
		"another request":               {[]step{{"a", true, 30, 0, true}, {"b", false, 30, 0, true}}, "40 left, 60 spent"},
		"a second request of the check": {[]step{{"a", true, 30, 0, true}, {"a", false, 30, 0, true}, {"a", false, 30, 0, true}}, "40 left, 60 spent"},
		"no id":                         {[]step{{"", true, 30, 0, true}, {"", false, 30, 0, true}}, "40 left, 60 spent"},
		"the last of a bucket":          {[]step{{"a", true, 100, 0, true}, {"b", false, 1, 0, false}, {"a", false, 100, 0, true}}, "0 left, 100 spent"},
		"a request in the next period":  {[]step{{"a", true, 60, 59*time.Minute + 59*time.Second, true}, {"a", false, 60, time.Hour, true}}, "41 left, 60 spent"},
		"a request that comes too late": {[]step{{"a", true, 60, 0, true}, {"b", true, 1, 2 * time.Minute, true}, {"a", false, 20, 2 * time.Minute, true}}, "79 left, 81 spent"},
	} {
		var s State
		for i, one := range c.steps {
			var v Verdict
			s, v = Take(s, p, Request{Cost: one.cost, ID: one.id, Asked: one.asked}, midnight.Add(one.after))
			if (v.Action != reject) != one.passes {
				t.Errorf("%s: step %d: %+v", name, i, v)
			}
		}
		if got := left(s); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestRejectedCheckGivesBack(t *testing.T) {
	t.Parallel()
	p := bucketOf(1, 100)
	s, _ := Take(State{}, p, Request{Cost: 60, ID: "a", Asked: true}, midnight)
	s, ok := Withdraw(s, p, -60, "a", midnight, midnight)
	if !ok || s.Level != 100 {
		t.Errorf("%g left, found %v", s.Level, ok)
	}
	if s, ok = Withdraw(s, p, -60, "a", midnight, midnight); ok || s.Level != 100 {
		t.Errorf("a second time: %g left, found %v", s.Level, ok)
	}
	if s, _ = Take(s, p, Request{Cost: 60, ID: "a"}, midnight); s.Level != 40 {
		t.Errorf("its request, which comes all the same: %g left", s.Level)
	}
}

// Whatever is checked, sent, rejected and corrected, in any order: what is taken in
// the end is what the answers cost, as long as nothing refills and no period ends.
func TestReservationsAndCorrectionsAddUpToWhatWasUsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := bucketOf(1e-12, 1e6)
		p.Budget = &Budget{Amount: 1e6, Period: time.Hour, Stages: []Stage{{1, reject, 0}}}
		var s State
		used := 0.0
		costs := rapid.Float64Range(0, 4e5)
		for i := range rapid.IntRange(1, 40).Draw(t, "requests") {
			id, cost := fmt.Sprint(i), costs.Draw(t, "cost")
			var v Verdict
			if rapid.Bool().Draw(t, "checked") {
				checked := costs.Draw(t, "checked cost")
				s, v = Take(s, p, Request{Cost: checked, ID: id, Asked: true}, midnight)
				if rapid.Bool().Draw(t, "another rule rejects") && v.Action != reject {
					s, _ = Withdraw(s, p, -checked, id, midnight, midnight)
				}
				if v.Action != reject && !rapid.Bool().Draw(t, "sent") {
					s, _ = Withdraw(s, p, -checked, id, midnight, midnight)
					continue
				}
			}
			if s, v = Take(s, p, Request{Cost: cost, ID: id}, midnight); v.Action == reject {
				continue
			}
			usage := rapid.SampledFrom([]float64{0, cost / 2, cost}).Draw(t, "usage")
			s = Correct(s, p, usage-cost, midnight, midnight)
			used += usage
		}
		if math.Abs(1e6-s.Level-used) > 1e-3 || math.Abs(s.Spent-used) > 1e-3 {
			t.Fatalf("%s, but %g were used", left(s), used)
		}
	})
}

// A request that is sent to a second detector, since the first was killed, is taken once.
func TestARequestThatIsSentAgainIsTakenOnce(t *testing.T) {
	t.Parallel()
	p := Params{Bucket: &Bucket{Rate: 0.001, Capacity: 2}, Budget: &Budget{Amount: 2, Period: time.Hour, Stages: []Stage{{Share: 1, Action: checkpb.Action_ACTION_REJECT}}}}
	now, s := time.UnixMilli(1_790_000_000_000), State{}
	var v Verdict
	for _, id := range []string{"hit00001", "hit00001", "hit00002", "hit00002"} {
		if s, v = Take(s, p, Request{Cost: 1, Hit: id}, now); v.Action == checkpb.Action_ACTION_REJECT {
			t.Errorf("%s: %+v", id, v)
		}
	}
	for range 2 {
		if _, v = Take(s, p, Request{Cost: 1, Hit: "hit00003"}, now); v.Action != checkpb.Action_ACTION_REJECT {
			t.Errorf("a third request: %+v", v)
		}
	}
	breaker := Params{Breaker: &Breaker{Threshold: 3}}
	s = State{}
	for range 5 {
		if s, v = Take(s, breaker, Request{Cost: 1, Hit: "hit00001"}, now); v.Action == checkpb.Action_ACTION_REJECT {
			t.Errorf("the breaker opens: %+v", s)
		}
	}
}
