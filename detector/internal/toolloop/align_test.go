package toolloop_test

import (
	"fmt"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/fingerprint"
)

func TestTheSameRoundInTenRequestsCountsOnce(t *testing.T) {
	t.Parallel()
	for _, history := range [][]toolloop.Item{
		rounds("A:same"),
		join([]toolloop.Item{human("go")}, rounds("X:1", "A:same", "A:same")),
	} {
		for _, s := range []*session{newSession(t), derivedSession(t)} {
			for i := range 10 {
				if r := s.request(history); r.Level() != allow {
					t.Fatalf("request %d: %+v", i+1, r.Detections)
				}
			}
		}
	}
}

func TestAMessageBeforeKnownRoundsIsNotNew(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.grow(join([]toolloop.Item{human("go")}, rounds("X:1", "Y:1"), repeat(4, rounds("A:same")...)))
	history := join([]toolloop.Item{human("what an agent wrote of its past")}, repeat(4, rounds("A:same")...), rounds("A:same"))
	if r := s.request(history); r.Level() != block {
		t.Errorf("a rewritten beginning must not wipe the count: %+v", r)
	}
}

func TestAJobThatStartsOverIsNoLoopInADerivedSession(t *testing.T) {
	t.Parallel()
	s := derivedSession(t)
	for run := range 8 {
		history := []toolloop.Item{human("nightly job")}
		if run%2 == 1 {
			history = append(history, rounds("X:1")...)
		}
		history = append(history, rounds("A:same", "B:1", "C:2")...)
		for i := range history {
			if r := s.request(history[:i+1]); r.Level() != allow {
				t.Fatalf("run %d, request %d: %+v", run, i, r.Detections)
			}
		}
	}
	s = newSession(t)
	var levels []toolloop.Level
	for run := range 5 {
		c := call("A", "same")
		c.ID = hash(fmt.Sprint("call ", run))
		levels = append(levels, s.grow([]toolloop.Item{human("job"), round(c)})...)
	}
	wantLast(t, levels, warn, allow, warn, allow, block) // with an id of its own it is one
}

// Without call ids, the words around calls tell them apart, and may be equal.
func TestARunThatBeginsAgainIsNotTheNewestRound(t *testing.T) {
	t.Parallel()
	c := call("A", "same")
	c.ID = hash("no words")
	history := append([]toolloop.Item{human("job")}, repeat(5, round(c))...)
	s := derivedSession(t)
	for run := range 3 {
		for n, want := range []toolloop.Level{allow, allow, allow, warn, warn, block} {
			if n == 0 {
				continue // a request without calls is not seen
			}
			if r := s.request(history[:n+1]); r.Level() != want {
				t.Errorf("run %d, round %d: %+v", run, n, r.Detections)
			}
		}
	}
}

func TestConversationsWithinOneSessionAreToldApart(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	histories := make([][]toolloop.Item, 6)
	for turn := range 40 {
		for i := range histories {
			if turn == 0 {
				histories[i] = []toolloop.Item{human(fmt.Sprintf("task %d", i))}
			} else {
				histories[i] = append(histories[i], rounds(fmt.Sprintf("Read%d.%d:text", i, turn))...)
			}
			if r := s.request(histories[i]); r.Level() != allow {
				t.Fatalf("turn %d of conversation %d: %+v", turn, i, r.Detections)
			}
		}
	}
	if got := s.state.Stats().Total; got != 6*39 {
		t.Errorf("%d calls counted, want %d", got, 6*39)
	}
}

func TestRoundsAfterAKeptResponseAreNew(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	request := func(previous string) toolloop.Report {
		return s.step(toolloop.Evidence{Items: rounds("A:same"), Before: hash(previous), Delta: true, Own: true})
	}
	for i, want := range []toolloop.Level{allow, allow, warn, warn, block} {
		previous := fmt.Sprintf("resp_%d", i)
		if r := request(previous); r.Level() != want {
			t.Fatalf("request %d: level %v, want %v", i+1, r.Level(), want)
		}
		if r := request(previous); fresh(r) != allow && want != allow {
			t.Fatalf("request %d sent again: %+v", i+1, r.Detections)
		}
	}
	if got := s.state.Stats().Total; got != 5 {
		t.Errorf("%d calls counted, want 5", got)
	}
}

func TestPartOfAHistoryWithTheChainBeforeItIsEnough(t *testing.T) {
	t.Parallel()
	history := join([]toolloop.Item{human("go")}, rounds("X:1", "A:same", "A:same", "A:same", "A:same", "A:same"))
	s := newSession(t)
	var levels []toolloop.Level
	var before fingerprint.Digest
	for i := range history {
		from := max(0, i-2)
		before = fingerprint.Digest{}
		for _, it := range history[:from] {
			key := fingerprint.HumanKey(it.Human)
			if len(it.Calls) > 0 {
				key = fingerprint.RoundKey([]fingerprint.Digest{it.Calls[0].Key})
			}
			before = fingerprint.Chain(before, key)
		}
		levels = append(levels, fresh(s.step(toolloop.Evidence{Items: history[from : i+1], Before: before, Own: true})))
	}
	wantLast(t, levels, allow, allow, warn, warn, block)
	if got := s.state.Stats().Total; got != 6 {
		t.Errorf("%d calls counted, want 6", got)
	}
}

func TestAResultThatComesLaterCounts(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i := range 6 {
		history := []toolloop.Item{human("go")}
		for k := range i {
			history = append(history, rounds(fmt.Sprintf("A:result %d", k))...)
		}
		history = append(history, round(call("A", "")))
		if r := s.request(history); r.Level() != allow {
			t.Fatalf("call %d: %+v", i+1, r.Detections)
		}
	}
	if got := s.state.Stats().Total; got != 6 {
		t.Errorf("%d calls counted, want 6", got)
	}
}

func TestAnEmptyRequestChangesNothing(t *testing.T) {
	t.Parallel()
	s := derivedSession(t)
	s.request(join([]toolloop.Item{human("go")}, repeat(3, rounds("A:same")...)))
	s.request(nil)
	s.request([]toolloop.Item{{}})
	if got := s.state.Stats().Total; got != 3 {
		t.Errorf("%d calls counted, want 3", got)
	}
}

func TestRoundsOfOtherAgentsDoNotCountInADerivedSession(t *testing.T) {
	t.Parallel()
	s := derivedSession(t)
	search := func(agent, day int) toolloop.Item {
		c := call(fmt.Sprint("search day ", day), "[]")
		c.Empty, c.ID = true, hash(fmt.Sprint(agent, " calls on ", day))
		return round(c)
	}
	histories := make([][]toolloop.Item, 3)
	for day := range 5 {
		for agent := range histories {
			if day == 0 {
				histories[agent] = []toolloop.Item{human("find a flight")}
			}
			histories[agent] = append(histories[agent], search(agent, day+agent))
			if r := s.request(histories[agent]); len(r.Detections) > 0 {
				t.Fatalf("agent %d, day %d: %+v", agent, day, r.Detections)
			}
		}
	}
}
