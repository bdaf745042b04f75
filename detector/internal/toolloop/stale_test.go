package toolloop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
)

// firstFound returns the first request, from 1, at which the rule is found, or 0.
func firstFound(s *session, history []toolloop.Item, r string) int {
	for i := range history {
		if f, ok := rule(s.request(history[:i+1]), r); ok && !f.Standing {
			return i + 1
		}
	}
	return 0
}

func TestRoundsThatBringNothingNewAreHinted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rounds string
		want   int
	}{
		"a cycle of three":            {"a:1 b:2 c:3 a:1 b:2 c:3 a:1 b:2", 7},
		"a cycle of five":             {"a:1 b:2 c:3 d:4 e:5 a:1 b:2 c:3 d:4 e:5", 9},
		"any order":                   {"a:1 b:2 c:3 c:3 a:1 c:3 b:2", 7},
		"news in between":             {"a:1 b:2 c:3 a:1 b:2 c:3 x:9 a:1 b:2 c:3", 0},
		"another result":              {"a:1 b:2 c:3 a:1 b:2 c:4 a:1 b:2 c:4", 0},
		"polls keep their patience":   {"P:1 a:1 P:1 P:1 P:1 P:1 P:1", 0},
		"exempt tools are not looked": {"F:1 a:1 b:2 F:1 a:1 F:1 b:2 F:1", 0},
	} {
		s := newSession(t)
		s.params.Exempt, s.params.PollTools = []string{"F"}, []string{"P"}
		if got := firstFound(s, rounds(strings.Fields(c.rounds)...), finding.NothingNew); got != c.want {
			t.Errorf("%s: found at round %d, want %d", name, got, c.want)
		}
	}
}

func TestEachFurtherRoundWithoutNewsIsHintedAgain(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := rounds(strings.Fields("a:1 b:2 c:3 a:1 b:2 c:3 a:1 c:3 b:2")...)
	hints := 0
	for i := range history {
		if r := s.request(history[:i+1]); len(r.Detections) > 0 && !r.Detections[0].Standing {
			hints++
		}
		if r := s.request(history[:i+1]); len(r.Detections) > 0 && !r.Detections[0].Standing {
			t.Errorf("round %d, sent again: %+v", i+1, r.Detections)
		}
	}
	if hints != 3 {
		t.Errorf("%d hints, want 3", hints)
	}
}

func TestTheSameEmptyResultIsHintedAtEverySixthRound(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	var history []toolloop.Item
	var found []int
	for i := range 14 {
		round := rounds("S:[]")
		round[0].Calls[0].Key = hash(fmt.Sprint("query ", i))
		round[0].Calls[0].Empty = true
		history = append(history, round...)
		if f, ok := rule(s.request(history), finding.SameEmpty); ok && !f.Standing {
			found = append(found, i+1)
		}
	}
	if fmt.Sprint(found) != "[6 12]" {
		t.Errorf("found at rounds %v, want 6 and 12", found)
	}
}

// nearly makes calls that differ in nothing but what their loose keys leave out.
func nearly(n int, change func(c *toolloop.Call)) (history []toolloop.Item) {
	for i := range n {
		round := rounds("E:the same")
		c := &round[0].Calls[0]
		c.Key, c.Loose = hash(fmt.Sprint("edit line ", i)), hash("edit line")
		change(c)
		history = append(history, round...)
	}
	return history
}

func TestNearlyTheSameFailingCallIsHintedAtTheThirdAndStoppedByItsErrorAlone(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := nearly(20, func(c *toolloop.Call) { c.Failed, c.Class = true, hash("no match") })
	for i := range history {
		r := s.request(history[:i+1])
		f, ok := rule(r, finding.Repeat)
		if ok != (i >= 2) || ok && (f.Level > warn || f.Count != i+1 || !f.Similar) {
			t.Fatalf("round %d: %+v", i+1, r.Detections)
		}
		if e, ok := rule(r, finding.SameError); ok != (i >= 4) || (e.Level == block) != (i >= 9) {
			t.Fatalf("round %d: %+v", i+1, r.Detections)
		}
	}
}

func TestCallsThatDifferInVolatileValuesAreEvidenceForAHintAtTheMost(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := nearly(20, func(*toolloop.Call) {})
	hinted := 0
	for i := range history {
		r := s.request(history[:i+1])
		if r.Level() > warn {
			t.Fatalf("round %d: %+v", i+1, r.Detections)
		}
		if r.Level() == warn {
			hinted++
		}
	}
	if hinted == 0 {
		t.Error("nothing was found")
	}
}

// soften marks all calls as text that may be no action.
func soften(history []toolloop.Item) []toolloop.Item {
	for i := range history {
		history[i].Calls[0].Soft = true
	}
	return history
}

func TestSoftCallsAreStoppedAtTwiceTheirHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		calls            string
		hinted, hardened int // rounds
	}{
		{"a:1 a:1 a:1", 3, 6}, {"a:1 b:2", 6, 10}, {"a:1 b:2 c:3", 7, 11},
	} {
		s := newSession(t)
		s.params.GlobalCircuitBreaker = 10
		history := soften(rounds(strings.Fields(strings.Repeat(c.calls+" ", 8))...))
		levels := s.grow(history)
		if hinted, stopped := slices.Index(levels, warn)+1, slices.Index(levels, block)+1; hinted != c.hinted || stopped != c.hardened {
			t.Errorf("%s: hinted at round %d and stopped at %d, want %d and %d", c.calls, hinted, stopped, c.hinted, c.hardened)
		}
	}
}

func TestSoftCallsAreNeverStopped(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *session){
		"without escalation": func(s *session) { s.params.Tool.Escalate, s.params.Cycle.Escalate = 0, 0 },
		"slowly":             func(s *session) { s.pace = 20 * time.Second },
	} {
		for _, calls := range []string{"a:1 a:1 a:1", "a:1 b:2 a:1", "a:1 b:2 c:3"} {
			s := newSession(t)
			change(s)
			levels := s.grow(soften(rounds(strings.Fields(strings.Repeat(calls+" ", 8))...)))
			if slices.Contains(levels, block) || !slices.Contains(levels, warn) {
				t.Errorf("%s, %s: %v", name, calls, levels)
			}
		}
	}
}

// New calls whose results tell only what others told are hinted at the sixth in a row, and
// never stopped.
func TestRoundsThatTellWhatOthersToldAreHinted(t *testing.T) {
	t.Parallel()
	looks := func(n int) (out []toolloop.Item) {
		for i := range n {
			c := call(fmt.Sprint("view ", i), fmt.Sprint("lines ", i))
			c.Retold = true
			out = append(out, round(c))
		}
		return out
	}
	for name, c := range map[string]struct {
		history []toolloop.Item
		want    int
	}{
		"in a row":         {looks(30), 6},
		"work in between":  {join(looks(5), rounds("edit:ok"), looks(10)[5:]), 0},
		"repeats as well":  {join(rounds("a:1", "a:1", "a:1"), looks(3)), 6},
		"fewer than a row": {looks(5), 0},
	} {
		s := newSession(t)
		if got := firstFound(s, c.history, finding.NothingNew); got != c.want {
			t.Errorf("%s: found at round %d, want %d", name, got, c.want)
		}
		if f, _ := rule(s.request(c.history), finding.NothingNew); f.Level >= block {
			t.Errorf("%s: stopped", name)
		}
	}
}
