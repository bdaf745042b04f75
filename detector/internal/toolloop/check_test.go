package toolloop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
)

const (
	allow = toolloop.Allow
	warn  = toolloop.Warn
	block = toolloop.Block
	broke = toolloop.Break
)

func TestACallIsWarnedOfAtThreeAndBlockedAtFive(t *testing.T) {
	t.Parallel()
	newSession(t).wantLevels(times(7, call("A", "")), allow, allow, warn, warn, block, block, block)
}

func TestDifferentArgumentsAreNoRepeat(t *testing.T) {
	t.Parallel()
	var calls []toolloop.Call
	for i := range 10 {
		calls = append(calls, call(fmt.Sprintf("A%d", i), ""))
	}
	newSession(t).wantLevels(calls, allow)
}

func TestTheCircuitBreakerCountsBlockedCallsToo(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.GlobalCircuitBreaker = 5
	s.params.WarnThreshold, s.params.BlockThreshold = 2, 3
	s.params.MaxWarnings = 10
	s.wantLevels(times(6, call("A", "")), allow, warn, block, block, block, broke)

	s = newSession(t)
	s.params.GlobalCircuitBreaker = 5
	var calls []toolloop.Call
	for i := range 7 {
		calls = append(calls, call(fmt.Sprintf("A%d", i), ""))
	}
	s.wantLevels(calls, allow, allow, allow, allow, allow, broke, broke)
}

func TestABreakStandsUntilAHumanOrAReleaseOrIdleness(t *testing.T) {
	t.Parallel()
	broken := func() *session {
		s := newSession(t)
		s.params.GlobalCircuitBreaker = 2
		s.request(join([]toolloop.Item{human("go")}, rounds("A:1", "B:1", "C:1")))
		if r := s.request(join([]toolloop.Item{human("go")}, rounds("D:1"))); r.Level() != broke {
			t.Fatalf("not broken: %+v", r)
		}
		return s
	}
	s := broken()
	if r := s.request([]toolloop.Item{human("go")}); r.Level() != broke {
		t.Error("a request without rounds must be refused too")
	}
	if r := s.request([]toolloop.Item{human("go"), human("carry on")}); r.Level() != allow {
		t.Errorf("a human message must end it: %+v", r)
	}
	s = broken()
	s.state = toolloop.Release(s.state)
	if r := s.request([]toolloop.Item{human("go")}); r.Level() != allow {
		t.Error("a release must end it")
	}
	s = broken()
	s.now = s.now.Add(30 * time.Minute)
	if r := s.request([]toolloop.Item{human("go")}); r.Level() != allow {
		t.Error("half an hour without a request must end it")
	}
}

func TestOutcomeThresholds(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.OutcomeWarn, s.params.OutcomeBlock = 2, 3
	want := []toolloop.Level{allow, warn, warn}
	for i, level := range want {
		if got := s.check(call("A", "")); fresh(got) >= block {
			t.Fatalf("check %d is refused: %+v", i+1, got)
		}
		got := s.result(call("A", "same"))
		if fresh(got) != level {
			t.Fatalf("result %d: level %v, want %v: %+v", i+1, fresh(got), level, got.Detections)
		}
	}
	r := s.check(call("A", ""))
	if f, ok := rule(r, finding.Outcome); !ok || f.Level != block || !strings.Contains(said(f, "hint"), "identical result") {
		t.Fatalf("the call after three identical results must be blocked: %+v", r.Detections)
	}
}

func TestDifferentOutcomesAreProgress(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.OutcomeWarn, s.params.OutcomeBlock = 2, 3
	for i := range 50 {
		if r := s.check(call("A", "")); r.Level() != allow {
			t.Fatalf("check %d: %+v", i+1, r.Detections)
		}
		if r := s.result(call("A", fmt.Sprint("result ", i))); r.Level() != allow {
			t.Fatalf("result %d: %+v", i+1, r.Detections)
		}
	}
}

func TestCyclesAreBlockedAtTheThirdRepeat(t *testing.T) {
	t.Parallel()
	a, b, c := call("A", ""), call("B", ""), call("C", "")
	s := newSession(t)
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	s.wantLevels([]toolloop.Call{a, b, a, b, a, b, a}, allow, allow, allow, allow, allow, block, block)

	s = newSession(t)
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	s.wantLevels([]toolloop.Call{a, b, c, a, b, c, a, b, c}, allow, allow, allow, allow, allow, allow, allow, allow, block)
	if f := s.explain().Detections[0]; f.Rule != finding.Round || f.Period != 3 || f.Tool != "A,B,C" || finding.DetectorOf(f.Rule) != "cycle" {
		t.Errorf("finding is %+v", f)
	}

	s = newSession(t)
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	s.wantLevels(times(9, a), allow)

	s = newSession(t) // with the usual thresholds
	s.wantLevels([]toolloop.Call{a, b, a, b}, allow)
	s.check(a)
	if r := s.check(b); r.Level() != block {
		t.Errorf("the sixth of A B A B A B must be blocked: %+v", r.Detections)
	}
}

func TestEveryPeriodUpToEightIsACycle(t *testing.T) {
	t.Parallel()
	for period := 2; period <= 10; period++ {
		s := newSession(t)
		s.params.WarnThreshold, s.params.BlockThreshold, s.params.WideWindow = 100, 100, 0
		var last toolloop.Report
		for i := range 3 * period {
			last = s.check(call(fmt.Sprintf("A%d", i%period), ""))
			if i < 3*period-1 && last.Level() != allow {
				t.Fatalf("period %d, call %d: %+v", period, i+1, last.Detections)
			}
		}
		if (last.Level() == block) != (period <= 8) {
			t.Errorf("period %d: %+v", period, last.Detections)
		}
	}
}

func TestAPollHasThreeTimesTheThresholds(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.MaxWarnings = 1
	s.wantLevels(times(12, pollCall("P", "")),
		allow, allow, allow, allow, allow, allow, allow, allow, warn, warn, warn, block)

	s = newSession(t)
	s.wantLevels(times(14, pollCall("P", "up")), allow, allow, allow, allow, allow, allow, allow, allow, warn)
	if r := s.check(pollCall("P", "")); r.Level() != block {
		t.Errorf("the fifteenth must be blocked: %+v", r.Detections)
	}
}

func TestTwoPollsByTurnsAreNoPingPong(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i := range 8 {
		for _, c := range []toolloop.Call{pollCall("P", ""), pollCall("Q", "")} {
			if r := s.check(c); r.Level() != allow {
				t.Fatalf("turn %d: %+v", i+1, r.Detections)
			}
		}
	}
}

func TestTheBackoffForPollsGrows(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i, want := range []int{0, 5, 10, 30, 60, 60, 60} {
		r := s.check(pollCall("P", ""))
		if len(r.Calls) != 1 || r.Calls[0].BackoffIn != want || r.Calls[0].Streak != i+1 || !r.Calls[0].Poll {
			t.Fatalf("poll %d: %+v, want a pause of %d s", i+1, r.Calls, want)
		}
	}
	if r := s.check(call("A", "")); r.Calls[0].BackoffIn != 0 {
		t.Error("a call that is no poll needs no pause")
	}
	for range 2 {
		s.check(pollCall("P", ""))
	}
	f, ok := rule(s.check(pollCall("P", "")), finding.Repeat)
	if !ok || f.Backoff != 60 || !strings.Contains(said(f, "hint"), "Wait 60 seconds") {
		t.Errorf("the warning must name the pause: %+v", f)
	}
}

func TestAfterTooManyWarningsACallIsBlocked(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.WarnThreshold, s.params.BlockThreshold, s.params.MaxWarnings = 2, 100, 2
	s.wantLevels(times(6, call("A", "")), allow, warn, warn, block, block, block)
}

func TestThresholdsFarBeyondTheRememberedRoundsHold(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.WarnThreshold, s.params.BlockThreshold, s.params.MaxWarnings, s.params.WideWindow = 50, 60, 100, 0
	for i := 1; i <= 61; i++ {
		want := allow
		if i >= 50 {
			want = warn
		}
		if i >= 60 {
			want = block
		}
		if r := s.check(call("A", "")); r.Level() != want {
			t.Fatalf("call %d: level %v, want %v", i, r.Level(), want)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	if got := s.state.Stats(); got != (toolloop.Stats{}) {
		t.Errorf("stats of nothing are %+v", got)
	}
	for _, c := range append(times(3, call("A", "")), call("B", "")) {
		s.check(c)
	}
	got := s.state.Stats()
	if got.Total != 4 || got.Unique != 2 || got.MostRepeated != "A" || got.MostRepeatedCount != 3 || got.Blocked != 0 {
		t.Errorf("stats are %+v", got)
	}
	for range 2 {
		s.check(call("A", ""))
	}
	if got := s.state.Stats(); got.Blocked != 1 || got.Total != 6 {
		t.Errorf("stats after a block are %+v", got)
	}
}

func TestFiftyCallsAreCountedAndThirtyRemembered(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i := range 50 {
		s.check(call(fmt.Sprintf("A%d", i), ""))
	}
	if got := s.state.Stats(); got.Remembered != 30 || got.Total != 50 || got.Unique != 50 || got.Calls != 50 {
		t.Errorf("stats are %+v", got)
	}
}

func TestACallStaysBlockedHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	written := func(args string) toolloop.Call { return toolCall("bash", args, "") }
	s := newSession(t)
	s.wantLevels(times(5, written(`{"command":"ls","n":1}`)), allow, allow, warn, warn, block)
	for _, args := range []string{`{"n":1,"command":"ls"}`, `{ "command" : "ls" , "n": 1.0 }`, `{"n":1e0,"command":"\u006cs"}`} {
		if r := s.check(written(args)); r.Level() != block {
			t.Errorf("%s passes: %+v", args, r.Detections)
		}
	}
	if r := s.check(written(`{"command":"ls","n":2}`)); r.Level() != allow {
		t.Errorf("another call must pass: %+v", r.Detections)
	}
}

func TestChecksAndHistoryAreOneCount(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := []toolloop.Item{human("go")}
	s.request(history)
	for i := 1; i <= 5; i++ {
		want := []toolloop.Level{allow, allow, warn, warn, block}[i-1]
		if r := s.check(call("A", "")); r.Level() != want {
			t.Fatalf("check %d: %+v", i, r.Detections)
		}
		if want == block {
			break
		}
		history = append(history, round(call("A", "same")))
		if r := s.request(history); fresh(r) != allow {
			t.Fatalf("request %d warns a second time: %+v", i, r.Detections)
		}
	}
	if r := s.request(history); r.Level() != block {
		t.Errorf("what a check blocked must be blocked in requests: %+v", r.Detections)
	}
}

func TestAResultWithoutACheckIsAnOccurrence(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i, want := range []toolloop.Level{allow, allow, warn, warn, block} {
		if r := s.result(call("A", "same")); r.Level() != want {
			t.Fatalf("result %d: %+v", i+1, r.Detections)
		}
	}
}

func TestResultsAreNoSecondOccurrenceWhereTheyAreIgnored(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.ResultAware = false
	for i, want := range []toolloop.Level{allow, allow, warn, warn, block} {
		if r := s.check(call("A", "")); r.Level() != want {
			t.Fatalf("check %d: %+v", i+1, r.Detections)
		}
		if r := s.result(call("A", fmt.Sprint(i))); r.Level() != want || r.Calls[0].Streak != i+1 {
			t.Fatalf("result %d: %+v", i+1, r)
		}
	}
}

// A tool runner that gives the model our words in place of a blocked call's result
// may report them as that.
func TestOurOwnWordsAreNoResultOfACheckedCall(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.wantLevels(times(5, call("A", "")), allow, allow, warn, warn, block)
	ours := call("A", "recursive_loop_detected: blocked")
	ours.Ours = true
	if r := s.result(ours); r.Level() != block || r.Calls[0].Streak != 5 {
		t.Errorf("our words: %+v; want what stands", r)
	}
	s.wantLevels(times(1, call("A", "")), block)
}

func TestExplanationTellsWhatStandsAndTakesNothingIn(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.GlobalCircuitBreaker = 3
	s.wantLevels(times(4, call("A", "")), allow, allow, warn, broke)
	for range 2 {
		r := s.explain()
		if _, found := rule(r, finding.Breaker); !found || r.Level() != broke || fresh(r) != allow || r.Calls[0].Streak != 4 {
			t.Fatalf("explained: %+v", r)
		}
	}
	s.now = s.now.Add(s.params.Idle())
	if r := s.explain(); len(r.Detections) != 0 {
		t.Errorf("after half an hour: %+v", r)
	}
}

// said returns what a detection tells the model if a policy answers it with an action.
func said(f toolloop.Detection, action string) string {
	facts := f.Facts()
	facts.Action = action
	return facts.Hint()
}

// Messages name the action of the policy, whatever the level of the detection.
func TestMessagesSayWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{finding.Repeat, finding.Outcome, finding.SameError, finding.AllFailed, finding.Round, finding.Wide} {
		f := toolloop.Detection{Rule: rule, Level: toolloop.Block, Tool: "A", Count: 12, Threshold: 9, Poll: true, Backoff: 60}
		for action, want := range map[string]string{"hint": "Wait 60 seconds", "reject": "is blocked", "break": "All requests are refused"} {
			if text := said(f, action); !strings.HasSuffix(text, ".") || !strings.Contains(text, want) {
				t.Errorf("%s, %v: %q; want it to say %q", rule, action, text, want)
			}
		}
		if text := said(f, "hint"); strings.Contains(text, "blocked") {
			t.Errorf("%s passes, and says: %q", rule, text)
		}
	}
}
