package toolloop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
)

func TestOneErrorFromDifferingArgumentsIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.FailedRounds = 0
	var history []toolloop.Item
	for i := range 6 {
		history = append(history, round(failure(fmt.Sprintf("A%d", i), fmt.Sprintf("Error: no such file '/tmp/%d'", i))))
	}
	wantLast(t, s.grow(history), allow, allow, allow, allow, warn, warn)
	f, ok := rule(s.request(history), finding.SameError)
	if !ok || f.Count != 6 || f.Tool != "A" || !strings.Contains(said(f, "hint"), "same error") {
		t.Errorf("finding is %+v", f)
	}
}

// Who fixes one place after the other sees the same kind of error from each.
func TestErrorsThatTellSomethingNewAfterOtherWorkGetMorePatience(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	var history []toolloop.Item
	for i := range 10 {
		history = append(history, round(call(fmt.Sprintf("E%d", i), "edited")), round(failure(fmt.Sprintf("A%d", i), fmt.Sprintf("Error: no such name '%d'", i))))
	}
	if at := firstFound(s, history, finding.SameError); at != 20 {
		t.Errorf("found at round %d, want that of the tenth error", at)
	}
}

func TestASuccessOrAnotherErrorEndsAnErrorCycle(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]toolloop.Call{
		"success":       call("A", "fine"),
		"another error": failure("A8", "Error: disk full"),
	} {
		s := newSession(t)
		var history []toolloop.Item
		for i := range 4 {
			history = append(history, round(failure(fmt.Sprintf("A%d", i), "Error: no")))
		}
		history = append(history, round(between))
		for i := range 4 {
			history = append(history, round(failure(fmt.Sprintf("A1%d", i), "Error: no")))
		}
		for i := range history {
			if f, ok := rule(s.request(history[:i+1]), finding.SameError); ok {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

func TestFiveFailedRoundsInARowAreWarnedOf(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	var history []toolloop.Item
	for i := range 5 {
		history = append(history, round(failure(fmt.Sprintf("%c", 'A'+i), fmt.Sprintf("Error: %c", 'a'+i))))
	}
	wantLast(t, s.grow(history), allow, allow, allow, allow, warn)

	mixed := append([]toolloop.Item{}, history[:4]...)
	mixed = append(mixed, round(failure("E", "Error: e"), call("F", "fine")), history[4])
	if levels := newSession(t).grow(mixed); levels[len(levels)-1] != allow {
		t.Errorf("a round in which one call succeeded has not failed: %v", levels)
	}
}

func TestAToolThatWasNeverOfferedIsWarnedOf(t *testing.T) {
	t.Parallel()
	var history []toolloop.Item
	for i := range 4 {
		c := call(fmt.Sprintf("A%d", i), fmt.Sprint("unknown tool ", i))
		c.NotOffered = true
		history = append(history, round(c))
	}
	s := newSession(t)
	wantLast(t, s.grow(history), allow, allow, warn, warn)
	f, ok := rule(s.request(history), finding.NotOffered)
	if !ok || f.Count != 4 || f.Threshold != 3 || !strings.Contains(said(f, "hint"), "does not exist") {
		t.Errorf("finding is %+v", f)
	}
}

func TestErrorRulesCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.ErrorThreshold, s.params.FailedRounds, s.params.UnknownThreshold = 0, 0, 0
	var history []toolloop.Item
	for i := range 12 {
		c := failure(fmt.Sprintf("A%d", i), "Error: no")
		c.NotOffered = true
		history = append(history, round(c))
	}
	quiet(t, s, history)
}

func TestFailuresReportedLaterCount(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	var last toolloop.Report
	for i := range 5 {
		s.check(call(fmt.Sprintf("A%d", i), ""))
		last = s.result(failure(fmt.Sprintf("A%d", i), "Error: no"))
	}
	if _, ok := rule(last, finding.SameError); !ok {
		t.Errorf("one error five times: %+v", last.Detections)
	}
	if _, ok := rule(last, finding.AllFailed); !ok {
		t.Errorf("five rounds failed: %+v", last.Detections)
	}
}
