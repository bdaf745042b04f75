package detector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// mixed returns checks of every kind; some of them make loops or meet limits.
func mixed() []*checkpb.Check {
	var all []*checkpb.Check
	history := rounds(6, same)
	for i := range 24 {
		all = append(all, promptCheck(fmt.Sprint("p", i%3)), run("read", fmt.Sprint("[", i%2, "]"), ""))
		if i < len(history) {
			all = append(all, toolCheck(history[:i+1]...))
		}
		shadow := promptCheck("shadow")
		shadow.Counters[0].Shadow = true
		peek := promptCheck("p1")
		peek.Peek = true
		malformed := run("read", "{}", "")
		malformed.Watches[0].Agent = nil
		retry := promptCheck("p2")
		retry.Retry = true
		all = append(all, shadow, peek, malformed, retry)
		all = append(all, ruled(i)...)
	}
	return all
}

// ruled are checks that rules look at: a bucket and a budget that run out and fill
// again, in shadow and not, beside a counter, without counting, and malformed.
func ruled(i int) []*checkpb.Check {
	few := func(l *checkpb.Limit) { l.Bucket = &checkpb.Bucket{Rate: 0.01, Capacity: 5} }
	spend := limited(func(l *checkpb.Limit) {
		l.Rule, l.Cost, l.Bucket = "spend", 12, nil
		l.Budget = &checkpb.Budget{Amount: 40, PeriodSeconds: 60, Stages: []*checkpb.Stage{
			{Percent: 50, Action: checkpb.Action_ACTION_WARN}, {Percent: 80, Action: checkpb.Action_ACTION_THROTTLE, DelayMs: 200},
			{Percent: 100, Action: checkpb.Action_ACTION_REJECT},
		}}
	})
	shadow := limited(func(l *checkpb.Limit) { few(l); l.Shadow = true })
	beside := promptCheck(fmt.Sprint("ruled", i%2))
	beside.Limits = limited(few).GetLimits()
	peek := limited(few)
	peek.Peek = true
	large := limited(func(l *checkpb.Limit) { l.Rule, l.Oversized = "large", true })
	malformed := limited(func(l *checkpb.Limit) { l.Key = nil })
	return []*checkpb.Check{limited(few), spend, shadow, beside, peek, large, malformed}
}

func TestAJudgeDecidesWhatADetectorDecides(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	var c clock
	startDetector(t, s, detector.WithClock(c.now))
	nc := s.Conn()
	evaluator := detector.NewEvaluator(c.now, nil)
	said := map[checkpb.Action]int{}
	for i, check := range mixed() {
		want := ask(t, nc, proto.CloneOf(check))[0]
		got := evaluator.Decide(t.Context(), check)
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&checkpb.Finding{}, "loop_id")); diff != "" {
			t.Fatalf("check %d (-detector +judge):\n%s", i, diff)
		}
		for _, v := range got.GetLimits() {
			said[v.GetAction()]++
		}
		c.advance(1500 * time.Millisecond)
	}
	for _, action := range []checkpb.Action{
		checkpb.Action_ACTION_ALLOW, checkpb.Action_ACTION_WARN, checkpb.Action_ACTION_THROTTLE, checkpb.Action_ACTION_REJECT,
	} {
		if said[action] == 0 {
			t.Errorf("no rule ever said %s", action.Label())
		}
	}
	stored, own := storedIncidents(t, s), evaluator.Incidents()
	if len(stored) == 0 || len(stored) != len(own) {
		t.Errorf("the detector has %d incidents, the judge %d", len(stored), len(own))
	}
}

func TestAJudgesIncidentsSayWhatWouldHaveBeenSaved(t *testing.T) {
	t.Parallel()
	var c clock
	evaluator := detector.NewEvaluator(c.now, nil)
	for range 9 {
		evaluator.Decide(t.Context(), promptCheck("p"))
		c.advance(time.Second)
	}
	c.advance(time.Hour)
	for range 7 {
		evaluator.Decide(t.Context(), promptCheck("p"))
	}
	loops := evaluator.Incidents()
	if len(loops) != 2 || loops[0].Saved.Requests != 4 || loops[0].Saved.InputTokens != 400 || loops[1].Saved.Requests != 2 {
		t.Errorf("incidents %+v; want one an hour, with 4 and 2 requests", loops)
	}
	if loops[0].LoopID == loops[1].LoopID || loops[0].LoopID == "" {
		t.Errorf("ids %q and %q", loops[0].LoopID, loops[1].LoopID)
	}
}

func TestAJudgeExcusesWhatCameToNothing(t *testing.T) {
	t.Parallel()
	var c clock
	evaluator := detector.NewEvaluator(c.now, nil)
	for i := range 3 {
		check := promptCheck("p")
		d := evaluator.Decide(t.Context(), check)
		if i > 0 && d.GetHitCounts()[0] != 1 {
			t.Errorf("replay %d of a call that failed: count %d, want 1", i, d.GetHitCounts()[0])
		}
		evaluator.Apply(checkpb.OutcomeOf(check))
	}
}

func TestAJudgeStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := detector.NewEvaluator(time.Now, nil).Decide(ctx, promptCheck("p")); d.GetError() == "" {
		t.Errorf("decision %v; want an error", d)
	}
}

// finder is a worker that finds a repeat in all but the first text.
type finder struct{ asked int }

func (f *finder) Answer(context.Context, *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	f.asked++
	return &semanticpb.SemanticReply{Judged: true, Detected: f.asked > 1, Compared: uint32(f.asked - 1), MaxSimilarity: 0.99}
}

func TestAJudgeWaitsForWhatTextsMean(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deferred bool
		want     []uint32
	}{
		"the policy waits":                      {false, []uint32{0, 1, 2, 3}},
		"a verdict is for the request after it": {true, []uint32{0, 0, 1, 2}},
	} {
		var clk clock
		evaluator := detector.NewEvaluator(clk.now, &finder{})
		var got []uint32
		for range 4 {
			count := uint32(0)
			for _, f := range evaluator.Decide(t.Context(), semanticCheck(c.deferred)).GetFindings() {
				count = f.GetHitCount()
			}
			got = append(got, count)
			clk.advance(time.Second)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: findings in a row (-want +got):\n%s", name, diff)
		}
		clk.advance(2 * time.Hour) // the streak is over
		if d := evaluator.Decide(t.Context(), semanticCheck(false)); d.GetFindings()[0].GetHitCount() != 1 {
			t.Errorf("%s: after the streak's time %v", name, d.GetFindings())
		}
	}
}

// semanticCheck asks for the meaning of a text.
func semanticCheck(deferred bool) *checkpb.Check {
	return &checkpb.Check{
		RequestId: "r", Identity: &checkpb.Identity{Caller: "c", Session: "abcd"},
		Exchange: &semanticpb.Exchange{Answered: "a question of some words"},
		Semantics: []*checkpb.SemanticWatch{{
			Policy: "p", Scope: make([]byte, 32), Params: fmt.Appendf(nil, `{"min_matches":1,"deferred":%t,"budget_ms":1}`, deferred),
		}},
	}
}
