package limit

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	allow    = checkpb.Action_ACTION_ALLOW
	warn     = checkpb.Action_ACTION_WARN
	throttle = checkpb.Action_ACTION_THROTTLE
	reject   = checkpb.Action_ACTION_REJECT
)

// midnight is the beginning of a day, and of every shorter period.
var midnight = time.Date(2026, 5, 22, 0, 0, 0, 0, time.UTC)

// ask is one request at a time after midnight.
type ask struct {
	after time.Duration
	cost  float64
}

// actions runs requests through a rule.
func actions(p Params, asks ...ask) []checkpb.Action {
	var s State
	var got []checkpb.Action
	for _, a := range asks {
		var v Verdict
		s, v = Step(s, p, a.cost, midnight.Add(a.after))
		got = append(got, v.Action)
	}
	return got
}

func bucketOf(rate, capacity float64) Params { return Params{Bucket: &Bucket{rate, capacity}} }

func tenIn(period time.Duration) Params {
	return Params{Budget: &Budget{Amount: 10, Period: period, Stages: []Stage{
		{0.5, warn, 0}, {0.8, throttle, 250 * time.Millisecond}, {1, reject, 0},
	}}}
}

func TestRequestsWithinAndBeyondALimit(t *testing.T) {
	t.Parallel()
	at := func(seconds, cost float64) ask { return ask{time.Duration(seconds * float64(time.Second)), cost} }
	both := bucketOf(10, 10)
	both.Budget = &Budget{Amount: 15, Period: time.Hour, Stages: []Stage{{1, reject, 0}}}
	for name, c := range map[string]struct {
		p    Params
		asks []ask
		want []checkpb.Action
	}{
		"a burst and no more":                 {bucketOf(1, 3), []ask{at(0, 1), at(0, 1), at(0, 1), at(0, 1)}, []checkpb.Action{allow, allow, allow, reject}},
		"refilled at the rate":                {bucketOf(2, 2), []ask{at(0, 2), at(0.4, 1), at(0.5, 1), at(0.9, 1), at(1, 1)}, []checkpb.Action{allow, reject, allow, reject, allow}},
		"never more than the capacity":        {bucketOf(1, 2), []ask{at(0, 2), at(100, 2), at(100, 1)}, []checkpb.Action{allow, allow, reject}},
		"a reject takes nothing":              {bucketOf(1, 2), []ask{at(0, 1), at(0, 2), at(0, 1)}, []checkpb.Action{allow, reject, allow}},
		"ten tenths make one":                 {bucketOf(0.1, 1), []ask{at(0, 1), at(9.9, 1), at(10, 1)}, []checkpb.Action{allow, reject, allow}},
		"larger than the bucket":              {bucketOf(1, 2), []ask{at(0, 3)}, []checkpb.Action{reject}},
		"a clock that runs behind":            {bucketOf(1, 1), []ask{at(10, 1), at(5, 1), at(10.9, 1), at(11, 1)}, []checkpb.Action{allow, reject, reject, allow}},
		"stages of a budget":                  {tenIn(time.Hour), []ask{at(0, 4), at(0, 1), at(0, 3), at(0, 2), at(0, 1)}, []checkpb.Action{allow, warn, throttle, throttle, reject}},
		"a smaller request may still fit":     {tenIn(time.Hour), []ask{at(0, 7), at(0, 4), at(0, 3)}, []checkpb.Action{warn, reject, throttle}},
		"a period begins on the clock":        {tenIn(time.Hour), []ask{at(3599, 10), at(3599.9, 1), at(3600, 1)}, []checkpb.Action{throttle, reject, allow}},
		"a period of a day begins midnight":   {tenIn(24 * time.Hour), []ask{at(-1, 10), at(0, 10), at(1, 1)}, []checkpb.Action{throttle, throttle, reject}},
		"both must have room":                 {both, []ask{at(0, 10), at(0, 1), at(1, 5), at(2, 1), at(3600, 1)}, []checkpb.Action{allow, reject, allow, reject, allow}},
		"nothing costs nothing in a full one": {bucketOf(1, 1), []ask{at(0, 1), at(0, 0)}, []checkpb.Action{allow, allow}},
	} {
		if diff := cmp.Diff(c.want, actions(c.p, c.asks...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestVerdictSaysWhatIsLeftAndWhenToComeBack(t *testing.T) {
	t.Parallel()
	second := time.Second
	for name, c := range map[string]struct {
		p      Params
		before float64
		cost   float64
		want   Verdict
	}{
		"bucket":                 {bucketOf(2, 10), 0, 4, Verdict{Action: allow, Limit: 10, Remaining: 6, Reset: 2 * second, Window: 5 * second}},
		"empty bucket":           {bucketOf(2, 10), 9, 4, Verdict{Action: reject, Limit: 10, Remaining: 1, Reset: 4500 * time.Millisecond, RetryAfter: 1500 * time.Millisecond, Window: 5 * second, Exceeded: checkpb.Exceeded_EXCEEDED_BUCKET}},
		"never enough":           {bucketOf(2, 10), 0, 11, Verdict{Action: reject, Limit: 10, Remaining: 10, Window: 5 * second, Exceeded: checkpb.Exceeded_EXCEEDED_BUCKET}},
		"throttled":              {tenIn(time.Hour), 7, 1, Verdict{Action: throttle, Limit: 10, Remaining: 2, Reset: time.Hour, Delay: 250 * time.Millisecond, Window: time.Hour}},
		"spent":                  {tenIn(time.Hour), 9, 2, Verdict{Action: reject, Limit: 10, Remaining: 1, Reset: time.Hour, RetryAfter: time.Hour, Window: time.Hour, Exceeded: checkpb.Exceeded_EXCEEDED_BUDGET}},
		"more than the budget":   {tenIn(time.Hour), 0, 11, Verdict{Action: reject, Limit: 10, Remaining: 10, Reset: time.Hour, Window: time.Hour, Exceeded: checkpb.Exceeded_EXCEEDED_BUDGET}},
		"the scarcer of the two": {Params{Bucket: &Bucket{1, 100}, Budget: &Budget{Amount: 10, Period: time.Hour, Stages: []Stage{{1, reject, 0}}}}, 0, 5, Verdict{Action: allow, Limit: 10, Remaining: 5, Reset: time.Hour, Window: time.Hour}},
	} {
		s, _ := Step(State{}, c.p, c.before, midnight)
		if _, got := Step(s, c.p, c.cost, midnight); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestCorrections(t *testing.T) {
	t.Parallel()
	p := Params{Bucket: &Bucket{1, 100}, Budget: &Budget{Amount: 1000, Period: time.Hour, Stages: []Stage{{1, reject, 0}}}}
	taken, _ := Step(State{}, p, 60, midnight)
	for name, c := range map[string]struct {
		delta        float64
		after        time.Duration
		level, spent float64
	}{
		"less than thought":    {-50, time.Second, 91, 10},
		"nothing at all":       {-60, time.Second, 100, 0},
		"more than thought":    {30, time.Second, 11, 90},
		"a debt":               {100, time.Second, -59, 160},
		"a debt has its limit": {1e9, time.Second, -100, 1e9 + 60},
		"in another period":    {-60, time.Hour, 100, 0},
		"more, in another one": {60, time.Hour, 40, 0},
	} {
		now := midnight.Add(c.after)
		s := Correct(taken, p, c.delta, midnight, now)
		if s.Level != c.level || s.Spent != c.spent {
			t.Errorf("%s: level %g, spent %g; want %g, %g", name, s.Level, s.Spent, c.level, c.spent)
		}
	}
}

func TestDrainTakesWhatIsThere(t *testing.T) {
	t.Parallel()
	p := bucketOf(1, 10)
	s, _ := Step(State{}, p, 4, midnight)
	if s = Drain(s, p, 100, midnight); s.Level != 0 {
		t.Errorf("level is %g", s.Level)
	}
	if _, v := Step(s, p, 1, midnight.Add(time.Second)); v.Action != allow {
		t.Errorf("a second later: %v", v.Action)
	}
}

// Over any stretch of time a bucket lets through no more than its capacity and
// what refilled, whatever the costs and the clock do; and a steady client that
// stays below the rate is never rejected.
func TestBucketHoldsItsRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.01, 1000).Draw(t, "rate")
		capacity := rate * rapid.Float64Range(1, 10).Draw(t, "burst")
		p := bucketOf(rate, capacity)
		var s State
		taken, at := 0.0, int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			at += int64(rapid.IntRange(-5, 2000).Draw(t, "ms"))
			cost := capacity * rapid.Float64Range(0, 1.2).Draw(t, "cost")
			var v Verdict
			if s, v = Step(s, p, cost, midnight.Add(time.Duration(at)*time.Millisecond)); v.Action != reject {
				taken += cost
			}
			elapsed := float64(s.At-midnight.UnixMilli()+10_000) / 1000 // clocks that ran behind begin earlier
			if limit := capacity + rate*elapsed; taken > limit*(1+1e-6) {
				t.Fatalf("took %g, at most %g", taken, limit)
			}
			if v.Remaining < 0 || v.Remaining > v.Limit || v.RetryAfter < 0 {
				t.Fatalf("verdict %+v", v)
			}
		}
	})
}

func TestWaitingAsToldIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.01, 1000).Draw(t, "rate")
		p := bucketOf(rate, rate*rapid.Float64Range(1, 10).Draw(t, "burst"))
		if rapid.Bool().Draw(t, "budget") {
			p.Budget = &Budget{Amount: rate * 20, Period: time.Hour, Stages: []Stage{{0.5, warn, 0}, {1, reject, 0}}}
		}
		var s State
		now := midnight
		for range 100 {
			cost := p.Bucket.Capacity * rapid.Float64Range(0, 1.1).Draw(t, "cost")
			var v Verdict
			if s, v = Step(s, p, cost, now); v.Action != reject || v.RetryAfter == 0 {
				continue
			}
			now = now.Add(v.RetryAfter)
			if _, again := Step(s, p, cost, now); again.Action == reject {
				t.Fatalf("cost %g rejected again after %s: %+v", cost, v.RetryAfter, again)
			}
		}
	})
}

func TestStateSurvivesItsRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := State{
			At: rapid.Int64().Draw(t, "at"), Level: rapid.Float64Range(-1e15, 1e15).Draw(t, "level"),
			Period: rapid.Int64().Draw(t, "period"), Spent: rapid.Float64Range(0, 1e18).Draw(t, "spent"),
			Minute: rapid.Int64().Draw(t, "time.Minute"), Current: rapid.Float64Range(0, 1e18).Draw(t, "current"),
			Previous: rapid.Float64Range(0, 1e18).Draw(t, "previous"), Opened: rapid.Int64().Draw(t, "opened"),
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "checks") {
			s = s.expect(Request{ID: fmt.Sprint(i), Asked: true, Cost: rapid.Float64Range(0, 1e15).Draw(t, "cost")}, int64(i))
		}
		var got State
		if err := got.Parse(s.Append(nil)); err != nil || !cmp.Equal(got, s) {
			t.Fatalf("%s: %+v, %v; want %+v", s.Append(nil), got, err, s)
		}
	})
}

func TestStateIsForgottenWhenItNoLongerMatters(t *testing.T) {
	t.Parallel()
	s, _ := Step(State{}, bucketOf(2, 10), 5, midnight)
	if ttl := s.TTL(bucketOf(2, 10), midnight); ttl != 3*time.Second {
		t.Errorf("bucket: %s", ttl)
	}
	p := tenIn(time.Hour)
	s, _ = Step(State{}, p, 5, midnight.Add(59*time.Minute))
	if ttl := s.TTL(p, midnight.Add(59*time.Minute)); ttl != 61*time.Second {
		t.Errorf("budget: %s", ttl)
	}
}

func TestMalformedLimitsAreRefused(t *testing.T) {
	t.Parallel()
	good := func() *checkpb.Limit {
		return &checkpb.Limit{
			Policy: "p", Rule: "r", Key: make([]byte, 32), Cost: 1, Bucket: &checkpb.Bucket{Rate: 1, Capacity: 2},
			Budget: &checkpb.Budget{Amount: 1, PeriodSeconds: 60, Stages: []*checkpb.Stage{{Percent: 50, Action: warn}, {Percent: 100, Action: reject}}},
		}
	}
	if _, err := FromWire(good()); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*checkpb.Limit){
		"short key":          func(l *checkpb.Limit) { l.Key = l.Key[:31] },
		"negative cost":      func(l *checkpb.Limit) { l.Cost = -1 },
		"infinite cost":      func(l *checkpb.Limit) { l.Cost = math.Inf(1) },
		"no number":          func(l *checkpb.Limit) { l.Cost = math.NaN() },
		"no limit":           func(l *checkpb.Limit) { l.Bucket, l.Budget = nil, nil },
		"no rate":            func(l *checkpb.Limit) { l.Bucket.Rate = 0 },
		"no capacity":        func(l *checkpb.Limit) { l.Bucket.Capacity = math.NaN() },
		"no amount":          func(l *checkpb.Limit) { l.Budget.Amount = 0 },
		"no period":          func(l *checkpb.Limit) { l.Budget.PeriodSeconds = 0 },
		"offset of a period": func(l *checkpb.Limit) { l.Budget.OffsetSeconds = 60 },
		"breaker and bucket": func(l *checkpb.Limit) { l.Breaker = &checkpb.Breaker{Threshold: 1} },
		"no threshold":       func(l *checkpb.Limit) { l.Bucket, l.Budget, l.Breaker = nil, nil, &checkpb.Breaker{} },
		"endless breaker": func(l *checkpb.Limit) {
			l.Bucket, l.Budget, l.Breaker = nil, nil, &checkpb.Breaker{Threshold: 1, ResetSeconds: math.MaxUint32}
		},
		"endless period":   func(l *checkpb.Limit) { l.Budget.PeriodSeconds = math.MaxUint32 },
		"falling stages":   func(l *checkpb.Limit) { l.Budget.Stages[1].Percent = 50 },
		"unknown action":   func(l *checkpb.Limit) { l.Budget.Stages[0].Action = 9 },
		"a stage of allow": func(l *checkpb.Limit) { l.Budget.Stages[0].Action = allow },
	} {
		l := good()
		edit(l)
		if _, err := FromWire(l); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, delta := range []float64{math.NaN(), math.Inf(-1), 1e19} {
		if CheckDelta(delta) == nil {
			t.Errorf("a correction of %g is taken", delta)
		}
	}
}

func TestVerdictsOnTheWire(t *testing.T) {
	t.Parallel()
	v := Verdict{
		Action: throttle, Limit: 10, Remaining: 2.5, Reset: time.Minute, RetryAfter: 1500 * time.Millisecond, Delay: 200 * time.Millisecond,
		Window: time.Hour, Exceeded: checkpb.Exceeded_EXCEEDED_BUDGET,
	}
	want := &checkpb.LimitVerdict{
		Action: throttle, Limit: 10, Remaining: 2.5, ResetMs: 60_000, RetryAfterMs: 1500, DelayMs: 200, WindowSeconds: 3600, Taken: true,
		Exceeded: checkpb.Exceeded_EXCEEDED_BUDGET,
	}
	if diff := cmp.Diff(want, v.Wire(), protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCorrectionsThatNoGatewaySendsAreRefused(t *testing.T) {
	t.Parallel()
	for _, delta := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 2 * maxNumber} {
		if CheckDelta(delta) == nil {
			t.Errorf("correction %g was taken", delta)
		}
	}
	if err := CheckDelta(-5); err != nil {
		t.Error(err)
	}
}

// Breakers and checks whose request may follow are kept for as long as they matter.
func TestBreakersAndChecksAreKept(t *testing.T) {
	t.Parallel()
	open := State{Opened: 1, At: 1}
	for name, c := range map[string]struct {
		s    State
		p    Params
		want time.Duration
	}{
		"a closed breaker":            {State{At: 1}, Params{Breaker: &Breaker{Threshold: 1}}, 2*time.Minute + time.Second},
		"an open one":                 {open, Params{Breaker: &Breaker{Threshold: 1, Reset: time.Hour}}, time.Hour + 2*time.Minute + time.Second},
		"one that an operator resets": {open, Params{Breaker: &Breaker{Threshold: 1}}, maxTTL},
		"a check": {
			State{Asked: []Asked{{At: midnight.UnixMilli()}}, Level: 1}, Params{Bucket: &Bucket{Rate: 1, Capacity: 1}}, askedTTL + time.Second,
		},
	} {
		if got := c.s.TTL(c.p, midnight); got != c.want {
			t.Errorf("%s is kept for %s, want %s", name, got, c.want)
		}
	}
	if s := (State{Spent: math.NaN()}).turn(midnight.UnixMilli(), midnight.UnixMilli()); s.Spent != 0 {
		t.Errorf("a spend that is no number becomes %g", s.Spent)
	}
}
