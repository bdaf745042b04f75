package evaluate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/schemas/checkpb"
)

// bucketOf is a rule that lets two requests pass.
func bucketOf(edit func(*checkpb.Limit)) *checkpb.Limit {
	l := &checkpb.Limit{Policy: "p", Rule: "few", Key: hash("acme"), Cost: 1, Bucket: &checkpb.Bucket{Rate: 0.001, Capacity: 2}}
	if edit != nil {
		edit(l)
	}
	return l
}

// breakerOf is a circuit breaker that opens at the second request.
func breakerOf(reset uint32) *checkpb.Limit {
	return bucketOf(func(l *checkpb.Limit) {
		l.Bucket, l.Breaker = nil, &checkpb.Breaker{Threshold: 2, ResetSeconds: reset}
	})
}

func limits(t *testing.T, check *checkpb.Check, all ...*checkpb.Limit) []part[limit.State] {
	t.Helper()
	out := make([]part[limit.State], len(all))
	for i, l := range all {
		one, err := evaluate.NewLimit(check, l)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = one
	}
	return out
}

func TestARuleTakesCostUntilItsBucketIsEmpty(t *testing.T) {
	t.Parallel()
	l := bucketOf(nil)
	_, results := run(limit.State{}, limits(t, &checkpb.Check{}, l, l, l)...)
	for i, r := range results {
		if rejected := r.Limit.GetAction() == reject; rejected != (i == 2) || r.Limit.GetTaken() == rejected || len(r.Incidents) != 0 {
			t.Errorf("request %d: %v", i+1, r.Limit)
		}
	}
	if _, err := evaluate.NewLimit(&checkpb.Check{}, &checkpb.Limit{}); err == nil {
		t.Error("a malformed rule was taken")
	}
}

// A reject needs no write where nothing refills the bucket but time.
func TestARejectLeavesItsRecord(t *testing.T) {
	t.Parallel()
	for estimated, kept := range map[bool]bool{false: false, true: true} {
		l := bucketOf(func(l *checkpb.Limit) { l.Estimated = estimated })
		s, _ := run(limit.State{}, limits(t, &checkpb.Check{}, l, l)...)
		if _, ttl := limits(t, &checkpb.Check{}, l)[0].Step(s, noon.Add(2*time.Second)); (ttl > 0) != kept {
			t.Errorf("estimated %t: kept for %s", estimated, ttl)
		}
	}
}

func TestWhatARuleDoesWithoutARequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		check  *checkpb.Check
		edit   func(*checkpb.Limit)
		access evaluate.Access
		want   *checkpb.LimitVerdict
	}{
		"a peek": {
			&checkpb.Check{Peek: true}, nil, evaluate.Read, &checkpb.LimitVerdict{Limit: 2, Remaining: 1, ResetMs: 1_000_000, WindowSeconds: 2000},
		},
		"a request that is too large": {
			&checkpb.Check{}, func(l *checkpb.Limit) { l.Oversized = true }, evaluate.Read,
			&checkpb.LimitVerdict{Action: reject, Limit: 2, Remaining: 1, ResetMs: 1_000_000, WindowSeconds: 2000},
		},
		"answers from memory":         {&checkpb.Check{Hits: 5}, nil, evaluate.Write, &checkpb.LimitVerdict{}},
		"answers that cost no tokens": {&checkpb.Check{Hits: 5}, func(l *checkpb.Limit) { l.Estimated = true }, evaluate.None, &checkpb.LimitVerdict{}},
	} {
		one := limits(t, c.check, bucketOf(c.edit))
		s, results := run(limit.State{}, one...)
		if diff := cmp.Diff(c.want, results[0].Limit, protocmp.Transform()); diff != "" || one[0].Access() != c.access {
			t.Errorf("%s: access %d (-want +got):\n%s", name, one[0].Access(), diff)
		}
		if name == "answers from memory" && s.Level != 0 {
			t.Errorf("%g are left in the bucket", s.Level)
		}
	}
}

// An open breaker is an incident, which ends with the request that closes it.
func TestTheIncidentOfABreaker(t *testing.T) {
	t.Parallel()
	l := breakerOf(60)
	check := &checkpb.Check{
		Identity: &checkpb.Identity{Session: "5e55"}, Watches: []*checkpb.ToolWatch{{Policy: "p"}},
		Excerpt: &checkpb.Excerpt{Text: "text", Policies: []string{"p"}},
	}
	s, results := run(limit.State{}, limits(t, check, l, l)...)
	in := results[1].Incidents[0]
	if in.Conversation != in.Key()[len("live.p."):] || in.Detector != "circuit_breaker" || in.Kept != time.Hour+time.Minute || in.Over || in.Count != 2 || in.Related != nil || in.Excerpt != "" {
		t.Errorf("incident %+v", in.Finding)
	}
	if *in.LoopID = "loop"; results[1].Limit.GetLoopId() != "loop" {
		t.Error("the incident's id is not the verdict's")
	}
	late := limits(t, check, l)[0]
	if late.Step(s, noon.Add(5*time.Minute)); len(late.Result().Incidents) != 1 || !late.Result().Incidents[0].Over {
		t.Errorf("when it closes: %+v", late.Result().Incidents)
	}
	if _, results = run(limit.State{}, limits(t, check, breakerOf(0), breakerOf(0))...); results[1].Incidents[0].Kept < 365*24*time.Hour {
		t.Errorf("open until an operator resets it: kept for %s", results[1].Incidents[0].Kept)
	}
	update, closed := evaluate.ResetBreaker(&checkpb.CounterRef{Policy: "p", Fingerprint: hash("acme")})
	if next, ttl := update.Step(s, noon); next.Opened != 0 || ttl != time.Second || closed.Key() != in.Key() {
		t.Errorf("after the reset: %+v, %s", next, closed.Key())
	}
}

func TestCorrectionsReplaceEstimates(t *testing.T) {
	t.Parallel()
	l := bucketOf(func(l *checkpb.Limit) { l.Estimated = true })
	asked, _ := run(limit.State{}, limits(t, &checkpb.Check{RequestId: "r", Asked: true}, l)...)
	for name, c := range map[string]struct {
		id     string
		stored bool
		level  float64
	}{
		"of a request":            {"", true, 1.5},
		"of a check":              {"r", true, 1.5},
		"of a check that is gone": {"other", false, 1},
	} {
		update, err := evaluate.Correct(&checkpb.Correction{Limit: l, Delta: -0.5, RequestId: c.id})
		if err != nil || update.Key != limits(t, &checkpb.Check{}, l)[0].Key() {
			t.Fatal(update.Key, err)
		}
		if s, ttl := update.Step(asked, noon); s.Level != c.level || (ttl > 0) != c.stored {
			t.Errorf("%s: level %g, kept for %s", name, s.Level, ttl)
		}
	}
	for name, c := range map[string]*checkpb.Correction{"rule": {}, "delta": {Limit: l, Delta: 1e300}} {
		if _, err := evaluate.Correct(c); !errors.Is(err, evaluate.ErrMalformed) {
			t.Errorf("a malformed %s: %v", name, err)
		}
	}
}
