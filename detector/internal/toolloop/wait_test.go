package toolloop_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
)

func waitCall(what string) toolloop.Call {
	c := call(what, "waited")
	c.Wait = true
	return c
}

// found returns the numbers, from 1, of the requests with a new detection of a level at
// the least.
func found(levels []toolloop.Level, least toolloop.Level) (out []int) {
	for i, level := range levels {
		if level >= least {
			out = append(out, i+1)
		}
	}
	return out
}

func TestSlowPollsAreHintedEverMoreRarelyAndStoppedAfterHours(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.pace = 30 * time.Second
	levels := s.grow(repeat(721, round(pollCall("P", "in progress"))))
	if got := found(levels[:720], warn); !slices.Equal(got, []int{9, 18, 36, 72, 144, 288, 576}) {
		t.Errorf("hints at polls %v", got)
	}
	if levels[720] != block {
		t.Errorf("a poll is not stopped after six hours: level %v", levels[720])
	}
	s.params.PollLimitHours = 0
	if r := s.request(repeat(722, round(pollCall("P", "in progress")))); r.Level() == block {
		t.Errorf("stopped without a limit: %+v", r.Detections)
	}
}

// A call that looks at something which others may change is a poll where it comes slowly,
// and where it comes quickly it is a call like any other.
func TestSlowLooksArePolls(t *testing.T) {
	t.Parallel()
	look := call("L", "pending")
	look.Look = true
	other := call("M", "pending")
	other.Look = true
	for name, c := range map[string]struct {
		pace            time.Duration
		history         []toolloop.Item
		hinted, stopped int // rounds; 0 for none
	}{
		"slow":                  {20 * time.Second, repeat(60, round(look)), 3, 0},
		"quick":                 {19 * time.Second, repeat(60, round(look)), 3, 5},
		"two by turns, slow":    {30 * time.Second, repeat(30, round(look), round(other)), 6, 0},
		"two by turns, quick":   {5 * time.Second, repeat(30, round(look), round(other)), 6, 6},
		"another call, as slow": {30 * time.Second, repeat(60, round(call("E", "pending"))), 3, 5},
	} {
		s := newSession(t)
		s.pace = c.pace
		levels := s.grow(c.history)
		first := func(least toolloop.Level) int {
			return slices.IndexFunc(levels, func(l toolloop.Level) bool { return l >= least }) + 1
		}
		if hinted, stopped := first(warn), first(block); hinted != c.hinted || stopped != c.stopped {
			t.Errorf("%s: hinted at round %d and stopped at %d, want %d and %d", name, hinted, stopped, c.hinted, c.stopped)
		}
	}
}

func TestAHintAboutASlowPollSaysHowLongItGoesOn(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.pace = 30 * time.Second
	history := repeat(18, round(pollCall("P", "in progress")))
	s.grow(history[:17])
	f, ok := rule(s.request(history), finding.Repeat)
	if !ok || !strings.HasPrefix(said(f, "hint"), "The tool P was called 18 times within 8 minutes with the same arguments and gave nothing new.") {
		t.Errorf("%+v: %s", f, said(f, "hint"))
	}
}

// The faster the polls, the fewer of them are let through.
func TestPollsAreStoppedByTheirPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pace time.Duration
		want int // the poll that is stopped; 0 for none of 300
	}{
		{100 * time.Millisecond, 15}, {2 * time.Second, 15}, {6 * time.Second, 20}, {10 * time.Second, 27}, {15 * time.Second, 52}, {20 * time.Second, 0},
	} {
		s := newSession(t)
		s.pace = c.pace
		levels := s.grow(repeat(300, round(pollCall("P", "down"))))
		if got := slices.Index(levels, block) + 1; got != c.want {
			t.Errorf("every %v: poll %d is stopped, want %d", c.pace, got, c.want)
		}
	}
}

func TestWaitingAndCheckingIsOnePoll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pace            time.Duration
		hinted, stopped int // rounds; 0 for none of 200
	}{
		"slowly":  {30 * time.Second, 18, 0},
		"quickly": {time.Second, 18, 18},
	} {
		s := newSession(t)
		s.pace = c.pace
		levels := s.grow(repeat(100, round(waitCall("wait 60")), round(call("check_job", "running"))))
		hinted, stopped := found(levels, warn), slices.Index(levels, block)+1
		if len(hinted) == 0 || hinted[0] != c.hinted || stopped != c.stopped {
			t.Errorf("%s: hinted at rounds %v, stopped at %d, want %d and %d", name, hinted, stopped, c.hinted, c.stopped)
		}
		if c.stopped == 0 && len(hinted) > 5 {
			t.Errorf("%s: hinted at rounds %v", name, hinted)
		}
	}
}

func TestWaitingBeforeOtherWorkIsNoPoll(t *testing.T) {
	t.Parallel()
	var history []toolloop.Item
	for i := range 40 {
		history = append(history, round(waitCall("wait 2")), round(call("click "+string(rune('A'+i)), "a new page "+string(rune('A'+i)))))
	}
	s := newSession(t)
	if hints := found(s.grow(history), warn); len(hints) > 3 {
		t.Errorf("hints at rounds %v", hints)
	}
}

// Whole histories that are seen for the first time do not tell how long the agent waited.
func TestPollsOfUnknownPaceAreNotStopped(t *testing.T) {
	t.Parallel()
	for n := 2; n < 60; n++ {
		for _, s := range []*session{newSession(t), derivedSession(t)} {
			if r := s.request(repeat(n, round(pollCall("P", "in progress")))); r.Level() >= block {
				t.Fatalf("%d polls: %+v", n, r.Detections)
			}
		}
	}
}

func TestAnAgentThatIsWokenDoesItsWorkAgain(t *testing.T) {
	t.Parallel()
	tick := human("check the mail")
	tick.Closed = true
	for pace, want := range map[time.Duration]toolloop.Level{time.Second: block, 10 * time.Second: allow, 15 * time.Minute: allow, time.Hour: allow} {
		for name, s := range map[string]*session{"own": newSession(t), "derived": derivedSession(t)} {
			s.pace = pace
			history := []toolloop.Item{human("check the mail")}
			level := toolloop.Allow
			for range 60 {
				level = max(level, fresh(s.request(history)))
				history = append(history, rounds("mail:[]")...)
				level = max(level, fresh(s.request(history)))
				history = append(history, tick)
			}
			if level != want {
				t.Errorf("%s, every %v: level %v, want %v", name, 2*pace, level, want)
			}
		}
	}
}

// A person who asks for the next track again and again is hinted and stopped at twice as
// many as a loop without answers.
func TestCallsBetweenAnswersHaveTwiceTheThresholds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turn            []toolloop.Item
		closed          bool
		hinted, stopped int // turns
	}{
		"one call, with answers":       {rounds("next:ok"), true, 6, 10},
		"one call, without":            {rounds("next:ok"), false, 3, 5},
		"two by turns, with answers":   {rounds("on:lit", "off:dark"), true, 3, 6},
		"two by turns, without":        {rounds("on:lit", "off:dark"), false, 3, 3},
		"five calls to an answer":      {rounds("a:1", "b:2", "a:1", "c:3", "b:2"), true, 2, 3},
		"ten calls to an answer":       {append(rounds("next:ok"), rounds("a:1", "b:2", "c:3", "d:4", "e:5", "f:6", "g:7", "h:8", "i:9")...), true, 2, 3},
		"ten calls, without an answer": {append(rounds("next:ok"), rounds("a:1", "b:2", "c:3", "d:4", "e:5", "f:6", "g:7", "h:8", "i:9")...), false, 2, 3},
	} {
		s := newSession(t)
		again := human("again")
		again.Closed = c.closed
		history := []toolloop.Item{human("again")}
		s.request(history)
		hinted, stopped := 0, 0
		for turn := 1; turn <= 12 && stopped == 0; turn++ {
			for _, it := range c.turn {
				history = append(history, it)
				level := fresh(s.request(history))
				if level >= warn && hinted == 0 {
					hinted = turn
				}
				if level >= block && stopped == 0 {
					stopped = turn
				}
			}
			history = append(history, again)
			s.request(history)
		}
		if hinted != c.hinted || stopped != c.stopped {
			t.Errorf("%s: hinted in turn %d and stopped in %d, want %d and %d", name, hinted, stopped, c.hinted, c.stopped)
		}
	}
}

// Who tries again after a pause waits until it works: what fails so is a poll, and no run of
// failures.
func TestFailedLooksThatComeSlowlyAreWaits(t *testing.T) {
	t.Parallel()
	refused := failure("ssh", "connection refused")
	refused.Look, refused.Plain = true, true
	for pace, want := range map[time.Duration]int{time.Second: 5, 9 * time.Second: 5, 10 * time.Second: 9, 15 * time.Second: 16, 20 * time.Second: 0} {
		s := newSession(t)
		s.pace = pace
		levels := s.grow(repeat(40, round(refused)))
		first := slices.IndexFunc(levels, func(l toolloop.Level) bool { return l >= block }) + 1
		if first != want {
			t.Errorf("every %v: stopped at %d, want %d", pace, first, want)
		}
	}
}

// A chat in which a text is answered with the same text, again and again.
func TestAnswersInTextAreCountedWhereTheyComeQuickly(t *testing.T) {
	t.Parallel()
	for pace, want := range map[time.Duration]toolloop.Level{5 * time.Second: block, time.Minute: allow, time.Hour: allow} {
		s := derivedSession(t)
		s.pace = pace
		history := soften(rounds(strings.Fields(strings.Repeat("OK:tick ", 60))...))
		for i := range history {
			history[i].Closed = true
		}
		level := toolloop.Allow
		for i := 2; i <= len(history); i++ { // a chat has rounds from the first repeat on
			level = max(level, fresh(s.request(history[:i])))
		}
		if level != want {
			t.Errorf("every %v: level %v, want %v", pace, level, want)
		}
	}
}
