package toolloop_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
)

// plain is a failure that says all in its class.
func plain(what, result string) toolloop.Call {
	c := failure(what, result)
	c.Plain = true
	return c
}

func TestHintsAboutErrorsLeadToAStop(t *testing.T) {
	t.Parallel()
	edit := func(i int) toolloop.Item { return round(call(fmt.Sprint("E", i), fmt.Sprint("edited ", i))) }
	one := func(c toolloop.Call) []toolloop.Item { return []toolloop.Item{round(c)} }
	for name, c := range map[string]struct {
		round  func(i int) []toolloop.Item
		change func(p *toolloop.Params)
		want   int // the failure that is stopped; 0 for none of 40
	}{
		"the same text": {round: func(i int) []toolloop.Item { return one(failure(fmt.Sprint("A", i), "Error: no match")) }, want: 10},
		"the same kind in other words": {
			round: func(i int) []toolloop.Item {
				return one(plain(fmt.Sprint("A", i), fmt.Sprintf("Error: no file '/tmp/%d'", i)))
			}, want: 10,
		},
		"the same text although other work was done": {
			round: func(i int) []toolloop.Item {
				return append(one(failure(fmt.Sprint("A", i), "Error: no match")), edit(i))
			}, want: 10,
		},
		"a compiler that gets further": {
			round: func(i int) []toolloop.Item { return one(failure(fmt.Sprint("A", i), fmt.Sprintf("error: line %d", i))) },
		},
		"other errors after other work": {
			round: func(i int) []toolloop.Item {
				return append(one(plain(fmt.Sprint("A", i), fmt.Sprintf("Error: no file '/tmp/%d'", i))), edit(i))
			},
		},
		"where a policy says so": {
			round:  func(i int) []toolloop.Item { return one(failure(fmt.Sprint("A", i), "Error: no match")) },
			change: func(p *toolloop.Params) { p.Tool.Escalate = 3 }, want: 15,
		},
		"where no policy does": {
			round:  func(i int) []toolloop.Item { return one(failure(fmt.Sprint("A", i), "Error: no match")) },
			change: func(p *toolloop.Params) { p.Tool.Escalate = 0 },
		},
		"errors by turns": {
			round: func(i int) []toolloop.Item {
				return one(plain(fmt.Sprint("A", i), []string{"Error: no", "Error: never", "Error: not so"}[i%3]))
			}, want: 10,
		},
	} {
		s := newSession(t)
		if c.change != nil {
			c.change(&s.params)
		}
		var history []toolloop.Item
		stopped, hinted := 0, false
		for i := range 40 {
			for _, it := range c.round(i) {
				history = append(history, it)
				level := s.request(history)
				hinted = hinted || level.Level() == warn
				if level.Level() == block && stopped == 0 {
					stopped = i + 1
				}
			}
		}
		if !hinted || stopped != c.want {
			t.Errorf("%s: hinted %t, failure %d is stopped, want %d", name, hinted, stopped, c.want)
		}
	}
}

func TestAToolThatDoesNotExistIsStoppedIfItsCallsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failed bool
		want   int
	}{"failing": {true, 6}, "succeeding, as tools do that are listed elsewhere": {false, 0}} {
		var history []toolloop.Item
		for i := range 20 {
			own := call(fmt.Sprint("A", i), fmt.Sprint("answer ", i))
			if c.failed {
				own = failure(fmt.Sprint("A", i), "Error: no such tool")
			}
			own.NotOffered = true
			history = append(history, round(own))
		}
		if got := slices.Index(newSession(t).grow(history), block) + 1; got != c.want {
			t.Errorf("%s: stopped at %d, want %d", name, got, c.want)
		}
	}
}

func TestRoundsWithoutNewsAreStoppedIfTheyRepeatEachOther(t *testing.T) {
	t.Parallel()
	first := rounds("a:1", "b:2", "c:3", "d:4", "e:5", "f:6", "g:7", "h:8", "i:9", "j:10", "k:11", "l:12")
	again := join(first, first)
	if levels := newSession(t).grow(again); slices.Contains(levels, block) || !slices.Contains(levels, warn) {
		t.Errorf("reading everything a second time: %v", levels)
	}
	mixed := join(first[:4], rounds("b:2", "a:1", "d:4", "a:1", "c:3", "b:2", "d:4", "c:3", "a:1"))
	s := newSession(t)
	levels := s.grow(mixed)
	if got := slices.Index(levels, block) + 1; got != 12 {
		t.Errorf("going round without order is stopped at round %d, want 12: %v", got, levels)
	}
	s = newSession(t)
	s.params.Cycle.Escalate = 0
	if levels := s.grow(mixed); slices.Contains(levels, block) {
		t.Errorf("stopped without escalation: %v", levels)
	}
}

// Rounds that are no longer remembered still are no news.
func TestALongCycleIsSeen(t *testing.T) {
	t.Parallel()
	for _, period := range []int{32, 100} {
		var once []toolloop.Item
		for i := range period {
			once = append(once, rounds(fmt.Sprintf("step%d:%d", i, i))...)
		}
		history := repeat(3, once...)
		for name, s := range map[string]*session{"own": newSession(t), "derived": derivedSession(t)} {
			levels := s.grow(history)
			if hinted, stopped := slices.Index(levels, warn)+1, slices.Index(levels, block)+1; hinted != period+4 || stopped != period+30 {
				t.Errorf("%s, period %d: hinted at round %d and stopped at %d, want %d and %d", name, period, hinted, stopped, period+4, period+30)
			}
		}
		// A new message ends it.
		again := join([]toolloop.Item{human("go")}, once, []toolloop.Item{human("again")}, once)
		if levels := newSession(t).grow(again); slices.Max(levels) != allow {
			t.Errorf("period %d, asked for twice: %v", period, levels)
		}
	}
}

// An edit that is applied again finds another file each time.
func TestAnEditThatIsMadeAgainRepeatsItself(t *testing.T) {
	t.Parallel()
	history := func(between bool) (out []toolloop.Item) {
		for i := range 8 {
			own := call("insert 94", fmt.Sprintf("[File: a.py (%d lines total)]", 94+13*i))
			own.Once = true
			out = append(out, round(own))
			if between {
				out = append(out, rounds(fmt.Sprintf("test%d:%d failed", i, i))...)
			}
		}
		return out
	}
	levels := newSession(t).grow(history(false))
	if got := fmt.Sprint(slices.Index(levels, warn)+1, slices.Index(levels, block)+1); got != "3 6" {
		t.Errorf("hinted and stopped at %s, want 3 6", got)
	}
	if levels := newSession(t).grow(history(true)); slices.Contains(levels, warn) {
		t.Errorf("with work in between: %v", levels)
	}
	f, _ := rule(func() toolloop.Report {
		s := newSession(t)
		s.grow(history(false)[:2])
		return s.request(history(false)[:3])
	}(), finding.Repeat)
	if want := "The tool i was called 3 times with the same arguments, and takes effect each time."; said(f, "hint")[:len(want)] != want {
		t.Error(said(f, "hint"))
	}
}
