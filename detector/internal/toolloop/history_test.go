package toolloop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// grow sends history as a client does, with one more item each time, and returns
// the gravest new level of each request.
func (s *session) grow(history []toolloop.Item) (levels []toolloop.Level) {
	s.t.Helper()
	for i := range history {
		levels = append(levels, fresh(s.request(history[:i+1])))
	}
	return levels
}

func wantLast(t *testing.T, levels []toolloop.Level, want ...toolloop.Level) {
	t.Helper()
	got := levels[len(levels)-len(want):]
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("levels end with %v, want %v", got, want)
		}
	}
}

func quiet(t *testing.T, s *session, history []toolloop.Item) {
	t.Helper()
	for i := range history {
		if r := s.request(history[:i+1]); r.Level() != allow {
			t.Fatalf("request %d of %d: %+v", i+1, len(history), r.Detections)
		}
	}
}

func TestARepeatInTheHistoryIsWarnedOfAtThreeAndBlockedAtFive(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*session{"own": newSession(t), "derived": derivedSession(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := join([]toolloop.Item{human("go")}, rounds("X:1", "Y:2"), repeat(6, rounds("A:same")...))
			wantLast(t, s.grow(history), allow, allow, allow, allow, warn, warn, block, block)
		})
	}
}

func TestAHintComesOnceForEachNewRepeat(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := join([]toolloop.Item{human("go")}, rounds("A:same", "A:same", "A:same"))
	if r := s.request(history); fresh(r) != warn {
		t.Fatalf("the third occurrence must be warned of: %+v", r.Detections)
	}
	for range 3 {
		if r := s.request(history); r.Level() != warn || fresh(r) != allow {
			t.Fatalf("the warning stands, it is not new: %+v", r.Detections)
		}
	}
	if r := s.request(append(history, rounds("A:same")...)); fresh(r) != warn {
		t.Fatalf("the fourth must be warned of again: %+v", r.Detections)
	}
	if r := s.request(append(history, rounds("A:same", "B:1")...)); r.Level() != allow {
		t.Fatalf("another call ends it: %+v", r.Detections)
	}
}

func TestABlockStandsWhileTheAgentTriesAgain(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := join([]toolloop.Item{human("go")}, repeat(5, rounds("A:same")...))
	s.grow(history)
	for _, again := range [][]toolloop.Item{history, history[:5], history[:4], append(history, rounds("A:same")...)} {
		if r := s.request(again); r.Level() != block {
			t.Errorf("a request with %d rounds passes: %+v", len(again)-1, r.Detections)
		}
	}
	if r := s.request(append(history, rounds("B:1")...)); r.Level() != allow {
		t.Errorf("something else must pass: %+v", r.Detections)
	}
}

func TestADifferentResultIsProgress(t *testing.T) {
	t.Parallel()
	var pages []toolloop.Item
	for i := range 40 {
		pages = append(pages, rounds(fmt.Sprintf("N:page %d", i))...)
	}
	quiet(t, newSession(t), pages)

	s := newSession(t)
	levels := s.grow(rounds("T:2 failed", "T:2 failed", "T:1 failed", "T:1 failed", "T:1 failed"))
	wantLast(t, levels, allow, allow, allow, allow, warn)
}

func TestOurOwnAnswersAreNoResults(t *testing.T) {
	t.Parallel()
	ours := call("A", "blocked by Unloop")
	ours.Ours = true
	history := join(rounds("A:same", "A:same"), []toolloop.Item{round(ours)}, rounds("A:same"))
	history = append(history, round(ours))
	wantLast(t, newSession(t).grow(history), allow, allow, warn, warn, block)
}

func TestResultsCanBeIgnored(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.ResultAware = false
	wantLast(t, s.grow(rounds("A:1", "A:2", "A:3", "A:4", "A:5")), allow, allow, warn, warn, block)
}

func TestTestsBetweenEditsAreNoLoop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tests toolloop.Call
		hints string
	}{
		"green":   {call("T", "all green"), "[15 16 17]"},
		"silent":  {toolloop.Call{Tool: "T", Key: hash("T"), Result: fingerprint.EmptyResult()}, "[]"},
		"failing": {failure("T", "FAIL: 2 of 7"), "[6 7 8]"},
	} {
		var history []toolloop.Item
		var hints []int
		s := newSession(t)
		for i := range 40 {
			history = append(history, rounds(fmt.Sprintf("Edit%d:done", i))...)
			s.request(history)
			history = append(history, round(c.tests))
			switch r := s.request(history); r.Level() {
			case allow:
			case warn:
				hints = append(hints, i+1)
			default:
				t.Fatalf("%s, round %d: %+v", name, i+1, r.Detections)
			}
		}
		if fmt.Sprint(hints) != c.hints {
			t.Errorf("%s: hints at %v, want %s and no more", name, hints, c.hints)
		}
	}
}

func TestReadingInBetweenIsNoWorkWhereAPolicySaysSo(t *testing.T) {
	t.Parallel()
	var history []toolloop.Item
	for i := range 5 {
		history = append(history, rounds(fmt.Sprintf("Read%d:text %d", i, i), "A:same")...)
	}
	quiet(t, newSession(t), history)
	s := newSession(t)
	s.params.ReadOnly = []string{"R*"}
	wantLast(t, s.grow(history), warn, allow, warn, allow, block)
}

func TestPollingOfSomethingThatChangesIsNeverStopped(t *testing.T) {
	t.Parallel()
	var history []toolloop.Item
	for i := range 60 {
		history = append(history, round(pollCall("P", fmt.Sprint(i/5, " of 12 pods ready"))))
	}
	quiet(t, newSession(t), history)
}

func TestParallelCallsAreOneRound(t *testing.T) {
	t.Parallel()
	var ten []toolloop.Call
	for i := range 10 {
		ten = append(ten, call(fmt.Sprintf("A%d", i), "ok"))
	}
	s := newSession(t)
	if r := s.request([]toolloop.Item{round(ten...)}); r.Level() != allow {
		t.Errorf("ten different calls at once: %+v", r.Detections)
	}
	s = newSession(t)
	r := s.request([]toolloop.Item{round(times(10, call("A", "ok"))...)})
	f, ok := rule(r, finding.Parallel)
	if !ok || r.Level() != toolloop.Note || f.Count != 10 || r.Calls[0].Streak != 1 {
		t.Errorf("ten identical calls at once must be reported as one round: %+v", r)
	}
	if got := s.state.Stats(); got.Calls != 10 {
		t.Errorf("the breaker must count every call, not %d", got.Calls)
	}
}

func TestAHumanMessageResetsStreaks(t *testing.T) {
	t.Parallel()
	a4 := repeat(4, rounds("A:same")...)
	history := join([]toolloop.Item{human("go")}, a4, []toolloop.Item{human("now the other one")}, a4)
	levels := newSession(t).grow(history)
	wantLast(t, levels, allow, allow, allow, warn, warn)

	s := newSession(t)
	if r := s.request(history[:6]); r.Level() != allow || s.state.Stats().Calls != 0 {
		t.Errorf("a message at the end ends what stands: %+v", r.Detections)
	}
}

func TestPleaseTryAgainIsNewOnce(t *testing.T) {
	t.Parallel()
	again := human("Please try again")
	history := []toolloop.Item{human("do it")}
	for range 6 {
		history = append(history, round(failure("A", "Error: no")), again)
	}
	s := newSession(t)
	var at []int
	for i := range history {
		if r := s.request(history[:i+1]); fresh(r) >= block {
			at = append(at, i)
		}
	}
	// The first counts as new, so rounds 2 to 6 are one streak.
	if len(at) != 1 || at[0] != 11 {
		t.Errorf("blocked at items %v, want at the sixth round, item 11", at)
	}
	if r := s.request(append(history, rounds("A:x")...)); fresh(r) != allow {
		t.Errorf("after a block the same words are a new message: %+v", r.Detections)
	}
}

func TestASummaryIsNoHumanMessage(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.grow(join([]toolloop.Item{human("go")}, rounds("X:1"), repeat(3, rounds("A:same")...)))
	compacted := []toolloop.Item{{Human: hash("summary of the conversation"), Summary: true}}
	s.request(compacted)
	history := join(compacted, rounds("A:same"))
	if r := s.request(history); fresh(r) != warn || r.Calls[0].Streak != 4 {
		t.Fatalf("compaction must not wipe the count: %+v", r)
	}
	if r := s.request(append(history, rounds("A:same")...)); r.Level() != block {
		t.Errorf("the fifth must be blocked: %+v", r.Detections)
	}
}

func TestAnIdleSessionIsForgotten(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.request(rounds("A:same", "A:same", "A:same", "A:same"))
	s.now = s.now.Add(30*time.Minute - 2*time.Second)
	if r := s.request(rounds("A:same", "A:same", "A:same", "A:same", "A:same")); r.Level() != block {
		t.Errorf("within half an hour: %+v", r.Detections)
	}
	s.now = s.now.Add(30 * time.Minute)
	if s.request(rounds("A:same")); s.state.Stats().Total != 1 {
		t.Errorf("after it: %+v", s.state.Stats())
	}
}

func TestAReleaseStartsAfresh(t *testing.T) {
	t.Parallel()
	for _, s := range []*session{newSession(t), derivedSession(t)} {
		history := join([]toolloop.Item{human("go")}, repeat(5, rounds("A:same")...))
		s.grow(history)
		s.state = toolloop.Release(s.state)
		for i, want := range []toolloop.Level{allow, allow, allow, warn, warn, block} {
			if r := s.request(history); r.Level() != want {
				t.Fatalf("request %d after the release: level %v, want %v: %+v", i, r.Level(), want, r.Detections)
			}
			history = append(history, rounds("A:same")...)
		}
	}
}

func TestThoughtsInBetweenAreNoWork(t *testing.T) {
	t.Parallel()
	var history []toolloop.Item
	for i := range 5 {
		thought := call(fmt.Sprint("think ", i), "noted")
		thought.Tool = "think"
		history = append(history, join(rounds("A:same"), []toolloop.Item{round(thought)})...)
	}
	s := newSession(t)
	var levels []toolloop.Level
	for i := 1; i <= len(history); i += 2 {
		r := s.request(history[:i])
		levels = append(levels, r.Level())
	}
	if diff := cmp.Diff([]toolloop.Level{allow, allow, warn, warn, block}, levels); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryGoesOnWithADerivedSessionWhoseHistoriesAreOneAgents(t *testing.T) {
	t.Parallel()
	summary := func(n int) []toolloop.Item {
		return []toolloop.Item{{Human: hash(fmt.Sprint("summary ", n)), Summary: true}}
	}
	for name, c := range map[string]struct {
		front  []toolloop.Item
		second int
	}{
		"in place of the first message":  {nil, 2},
		"behind the first message":       {[]toolloop.Item{human("go")}, 2},
		"that reads like the one before": {nil, 1},
		"that reads so behind the first": {[]toolloop.Item{human("go")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := derivedSession(t)
			s.grow(join([]toolloop.Item{human("go")}, rounds("A:same", "A:same")))
			s.request(join(c.front, summary(1)))
			if r := s.request(join(c.front, summary(1), rounds("A:same"))); fresh(r) != warn || r.Calls[0].Streak != 3 {
				t.Fatalf("the third round: %+v", r)
			}
			s.request(join(c.front, summary(c.second)))
			s.request(join(c.front, summary(c.second), rounds("A:same")))
			if r := s.request(join(c.front, summary(c.second), rounds("A:same", "A:same"))); r.Level() != block {
				t.Errorf("the fifth round: %+v", r)
			}
		})
	}
	t.Run("of another agent that began alike", func(t *testing.T) {
		t.Parallel()
		s := derivedSession(t)
		begun := join([]toolloop.Item{human("go")}, rounds("A:same", "A:same"))
		s.grow(begun)
		other := join([]toolloop.Item{human("go")}, rounds("B:1"))
		for range 3 { // the two in turn
			s.request(other)
			s.request(begun)
		}
		if r := s.request(join([]toolloop.Item{human("go")}, summary(1), rounds("A:same"))); r.Level() != allow {
			t.Errorf("the other's first round after its summary: %+v", r)
		}
	})
}
