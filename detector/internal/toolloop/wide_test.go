package toolloop_test

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/finding"
)

// wander visits eight calls over and over in an order without a short period.
func wander(n int, result func(i int) string) (history []toolloop.Item) {
	for i := range n {
		history = append(history, rounds(fmt.Sprintf("A%d:%s", (i*i+i/7)%8, result(i)))...)
	}
	return history
}

func TestManyRoundsOfFewCallsAreAWideLoop(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	history := wander(40, func(int) string { return "same" })
	var at []int
	var levels []toolloop.Level
	for i := range history {
		r := s.request(history[:i+1])
		if f, ok := rule(r, finding.Wide); ok && !f.Standing {
			at, levels = append(at, i+1), append(levels, f.Level)
		}
	}
	want := []int{24, 27, 30, 33, 34, 35, 36, 37, 38, 39, 40}
	if fmt.Sprint(at) != fmt.Sprint(want) || levels[2] != warn || levels[3] != block {
		t.Errorf("found at %v with %v, want at %v, with a block from the fourth on", at, levels, want)
	}
}

func TestAChangeAnywhereIsNoWideLoop(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.NothingNew = 0 // it sees rounds come back before the wide loop does
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	quiet(t, s, wander(60, func(i int) string { return fmt.Sprint(i / 20) }))
}

func TestEnoughDistinctCallsAreNoWideLoop(t *testing.T) {
	t.Parallel()
	var history []toolloop.Item
	for i := range 60 {
		history = append(history, rounds(fmt.Sprintf("A%d:same", i%20))...)
	}
	s := newSession(t)
	s.params.NothingNew = 0 // it sees rounds come back before the wide loop does
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	quiet(t, s, history)
}

func TestTheWideLoopCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.NothingNew = 0 // it sees rounds come back before the wide loop does
	s.params.WarnThreshold, s.params.BlockThreshold, s.params.WideWindow = 100, 100, 0
	quiet(t, s, wander(40, func(int) string { return "same" }))
}

func TestCyclesNeedEqualResults(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	var history []toolloop.Item
	for i := range 10 {
		history = append(history, rounds(fmt.Sprintf("Next:job %d", i), "Done:ok")...)
	}
	quiet(t, s, history)

	s = newSession(t)
	same := repeat(3, rounds("Next:none", "Done:ok")...)
	r := s.request(same)
	f, ok := rule(r, finding.PingPong)
	if !ok || f.Level != block || f.Count != 3 || f.Period != 2 || f.Tool != "N,D" {
		t.Errorf("finding is %+v of %+v", f, r.Detections)
	}
}
