package counter

import (
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

const hint = checkpb.Action_ACTION_HINT

// turn is a hit with a history of so many messages.
func turn(messages int) Hit { return Hit{Messages: messages} }

func TestAHistoryThatBeginsAgainIsHintedFirst(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	var s State
	var v Verdict
	at := epoch
	for n := range 5 { // the first run, which something else stopped
		s, v = Step(s, p, turn(7+2*n), at)
		at = at.Add(2 * time.Second)
	}
	if v.Fired {
		t.Fatalf("the first run: %+v", v)
	}
	for n, want := range []checkpb.Action{hint, hint, hint, hint, hint, reject} {
		s, v = Step(s, p, turn(7+2*n), at)
		if v.Action != want || v.Began != (want == reject) || v.Count != 6+n {
			t.Errorf("hit %d of the second run: %+v, want %s", n+1, v, want)
		}
		at = at.Add(2 * time.Second)
	}
}

func TestOneRunIsNoSecondOne(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	for name, messages := range map[string][]int{
		"growing":           {7, 9, 11, 13, 15, 17},
		"the same request":  {7, 7, 7, 7, 7, 7},
		"of unknown length": {0, 0, 0, 0, 0, 0},
		"partly unknown":    {9, 0, 7, 0, 5, 0},
	} {
		var s State
		var v Verdict
		for _, n := range messages {
			s, v = Step(s, p, turn(n), epoch)
		}
		if v.Action != reject || !v.Began {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// What was hit before the history began again is forgotten with the window, and a
// block that stands is not lifted.
func TestTheRunBeforeIsForgottenWithItsWindow(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	var s State
	for range 4 {
		s, _ = Step(s, p, turn(9), epoch)
	}
	s, _ = Step(s, p, turn(3), epoch.Add(50*time.Second))
	if s.Before != 4 {
		t.Errorf("state %+v", s)
	}
	var v Verdict
	for n := range 5 {
		s, v = Step(s, p, turn(5+n), epoch.Add(65*time.Second))
	}
	if s.Before != 0 || v.Action != reject {
		t.Errorf("after the window: %+v, state %+v", v, s)
	}
	if _, v = Step(s, p, turn(1), epoch.Add(66*time.Second)); v.Action != reject || v.Blocked == 0 {
		t.Errorf("a rerun while the block stands: %+v", v)
	}
}
