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
)

// mixed are checks of every kind, some of which make loops.
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
	}
	return all
}

func TestAJudgeDecidesWhatADetectorDecides(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	var c clock
	startDetector(t, s, detector.WithClock(c.now))
	nc := s.Conn()
	judge := detector.NewJudge(c.now)
	for i, check := range mixed() {
		want := ask(t, nc, proto.CloneOf(check))[0]
		got := judge.Decide(t.Context(), check)
		if diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&checkpb.Finding{}, "loop_id")); diff != "" {
			t.Fatalf("check %d (-detector +judge):\n%s", i, diff)
		}
		c.advance(1500 * time.Millisecond)
	}
	stored, own := storedIncidents(t, s), judge.Incidents()
	if len(stored) == 0 || len(stored) != len(own) {
		t.Errorf("the detector has %d incidents, the judge %d", len(stored), len(own))
	}
}

func TestAJudgesIncidentsSayWhatWouldHaveBeenSaved(t *testing.T) {
	t.Parallel()
	var c clock
	judge := detector.NewJudge(c.now)
	for range 9 {
		judge.Decide(t.Context(), promptCheck("p"))
		c.advance(time.Second)
	}
	c.advance(time.Hour)
	for range 7 {
		judge.Decide(t.Context(), promptCheck("p"))
	}
	loops := judge.Incidents()
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
	judge := detector.NewJudge(c.now)
	for i := range 3 {
		check := promptCheck("p")
		d := judge.Decide(t.Context(), check)
		if i > 0 && d.GetHitCounts()[0] != 1 {
			t.Errorf("replay %d of a call that failed: count %d, want 1", i, d.GetHitCounts()[0])
		}
		judge.Excuse(check)
	}
}

func TestAJudgeStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := detector.NewJudge(time.Now).Decide(ctx, promptCheck("p")); d.GetError() == "" {
		t.Errorf("decision %v; want an error", d)
	}
}
