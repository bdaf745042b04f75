package toolloop_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/detector/internal/toolloop"
)

// drawHistory draws rounds from a small alphabet, so that all kinds of repeats
// come up, with a human message now and then.
func drawHistory(t *rapid.T, withIDs bool) (history []toolloop.Item, calls int) {
	history = []toolloop.Item{human("go")}
	for i := range rapid.IntRange(1, 80).Draw(t, "rounds") {
		if rapid.IntRange(0, 14).Draw(t, "human") == 0 {
			history = append(history, human(rapid.SampledFrom([]string{"more", "again", "go"}).Draw(t, "text")))
		}
		var it toolloop.Item
		for k := range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "parallel") {
			c := call(rapid.SampledFrom([]string{"A", "B", "C1", "C2"}).Draw(t, "call"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "result"))
			if withIDs {
				c.ID = hash(fmt.Sprint("id", i, k))
			}
			it.Calls = append(it.Calls, c)
			calls++
		}
		history = append(history, it)
	}
	return history, calls
}

func rapidSession(t *rapid.T, own bool) *session {
	s := &session{t: t, params: toolloop.DefaultParams(), now: noon, shared: toolloop.Evidence{Own: own}}
	s.params.GlobalCircuitBreaker = rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "breaker")
	s.params.OutcomeBlock = rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "outcome")
	return s
}

func TestWholeHistoriesCountEveryRoundOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		history, calls := drawHistory(t, rapid.Bool().Draw(t, "ids"))
		s := rapidSession(t, rapid.Bool().Draw(t, "own"))
		for i := 0; i < len(history); i += rapid.IntRange(0, 3).Draw(t, "step") {
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				s.request(history[:i+1])
			}
		}
		s.request(history)
		if got := s.state.Stats().Total; got != calls {
			t.Fatalf("%d calls counted, want %d", got, calls)
		}
	})
}

// cut keeps the first message and the newest rounds, as clients do.
func cut(history []toolloop.Item, rounds int) []toolloop.Item {
	i := len(history)
	for n := 0; i > 1 && n < rounds; i-- {
		if len(history[i-1].Calls) > 0 {
			n++
		}
	}
	return join(history[:1], history[i:])
}

func TestCutHistoriesWithIDsCountEveryRoundOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		history, calls := drawHistory(t, true)
		s := rapidSession(t, true)
		window := rapid.IntRange(1, 12).Draw(t, "window")
		for i := range history {
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				s.request(cut(history[:i+1], window))
			}
		}
		if got := s.state.Stats().Total; got != calls {
			t.Fatalf("%d calls counted, want %d", got, calls)
		}
	})
}

// Rounds repeat, but none stands twice in one request: of two that are equal, a client
// that cuts its history may have sent either. The histories are the same in each run,
// since one in some ten thousand is not told apart from an earlier one.
func TestCutHistoriesWithoutIDsCountNoRoundTwice(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		window := 1 + draw.IntN(12)
		period := window + 1 + draw.IntN(5)
		s, history, calls := newSession(t), []toolloop.Item{human("go")}, 0
		for range 1 + draw.IntN(80) {
			if draw.IntN(15) == 0 {
				history = append(history, human([]string{"more", "again", "go"}[draw.IntN(3)]))
			}
			it := round(call(fmt.Sprint("A", len(history)%period), ""))
			for range []int{0, 0, 0, 1, 2}[draw.IntN(5)] {
				it.Calls = append(it.Calls, call([]string{"B", "C"}[draw.IntN(2)], ""))
			}
			history, calls = append(history, it), calls+len(it.Calls)
			s.shared.Retry = false
			for range 1 + draw.IntN(2) {
				s.request(cut(history, window))
				s.shared.Retry = true
			}
		}
		if got := s.state.Stats().Total; got > calls {
			t.Fatalf("window %d, period %d: %d calls counted, there were %d", window, period, got, calls)
		}
	}
}

func TestHonestSessionsAreNeverFlagged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapidSession(t, rapid.Bool().Draw(t, "own"))
		s.params.GlobalCircuitBreaker = 0
		window := rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "window")
		ids := rapid.Bool().Draw(t, "ids")
		history := []toolloop.Item{human("go")}
		for i := range rapid.IntRange(1, 300).Draw(t, "rounds") {
			c := call(fmt.Sprintf("%c%d", 'A'+i%5, i), rapid.SampledFrom([]string{"ok", "done", ""}).Draw(t, "result"))
			if ids {
				c.ID = hash(fmt.Sprint("id", i))
			}
			history = append(history, round(c))
			if rapid.IntRange(0, 30).Draw(t, "human") == 0 {
				history = append(history, human(fmt.Sprint("next ", i)))
			}
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				if r := s.request(cut(history, window)); len(r.Detections) > 0 {
					t.Fatalf("round %d: %+v", i, r.Detections)
				}
			}
		}
	})
}

// drawEvidence draws anything at all.
func drawEvidence(t *rapid.T) toolloop.Evidence {
	item := rapid.Custom(func(t *rapid.T) toolloop.Item {
		it := toolloop.Item{Summary: rapid.Bool().Draw(t, "summary")}
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			it.Human = hash(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "text"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			c := call(rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "call"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "result"))
			c.Failed, c.Poll = rapid.Bool().Draw(t, "failed"), rapid.Bool().Draw(t, "poll")
			c.NotOffered, c.Ours = rapid.Bool().Draw(t, "unknown"), rapid.Bool().Draw(t, "ours")
			if rapid.Bool().Draw(t, "id") {
				c.ID = hash(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "which"))
			}
			it.Calls = append(it.Calls, c)
		}
		return it
	})
	ev := toolloop.Evidence{
		Items: rapid.SliceOfN(item, 0, 50).Draw(t, "items"),
		Own:   rapid.Bool().Draw(t, "own"), Delta: rapid.Bool().Draw(t, "delta"), Retry: rapid.Bool().Draw(t, "retry"),
	}
	if rapid.Bool().Draw(t, "partial") {
		ev.Before = hash("before")
	}
	return ev
}

func drawParams(t *rapid.T) toolloop.Params {
	p := toolloop.DefaultParams()
	for least, values := range [][]*int{
		{
			&p.GlobalCircuitBreaker, &p.OutcomeWarn, &p.OutcomeBlock, &p.ErrorThreshold, &p.FailedRounds, &p.UnknownThreshold, &p.Repeats,
			&p.WideWindow, &p.Tool.Escalate, &p.Cycle.Escalate,
		},
		{&p.WarnThreshold, &p.BlockThreshold, &p.MaxWarnings, &p.PollMultiplier, &p.HistorySize, &p.WideRounds, &p.WideDistinctPercent},
		{&p.MaxPeriod},
	} {
		for _, v := range values {
			*v = rapid.IntRange(least, 9).Draw(t, "parameter")
		}
	}
	p.ResultAware = rapid.Bool().Draw(t, "ignore results")
	p.Exempt = rapid.SampledFrom([][]string{nil, {"A"}, {"*"}}).Draw(t, "exempt")
	p.PollBackoff = rapid.SampledFrom([][]int{nil, {0, 5}}).Draw(t, "backoff")
	return p
}

func TestNothingBreaksTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &session{t: t, now: noon}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			s.params = drawParams(t)
			before := s.state.Append(nil)
			old := s.state
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				s.check(call("A", "x"))
			case 1:
				s.result(call("A", rapid.SampledFrom([]string{"x", "y"}).Draw(t, "result")))
			case 2:
				s.keep(toolloop.Release(s.state))
			case 3:
				s.keep(toolloop.Stop(s.state, rapid.Bool().Draw(t, "forever")))
			default:
				s.step(drawEvidence(t))
			}
			if !bytes.Equal(old.Append(nil), before) {
				t.Fatal("the state that was given has changed")
			}
			if size := len(s.state.Append(nil)); size > 64<<10 {
				t.Fatalf("the state has grown to %d bytes", size)
			}
			for _, f := range s.explain().Detections {
				if said(f, "hint") == "" || f.Level == allow {
					t.Fatalf("finding %+v says nothing", f)
				}
			}
			s.now = s.now.Add(time.Duration(rapid.IntRange(-60, 2000).Draw(t, "pause")) * time.Second)
		}
	})
}

func TestTheStateIsBounded(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	history := []toolloop.Item{}
	for i := range 300 {
		var it toolloop.Item
		for k := range 100 {
			c := call(fmt.Sprintf("tool %d %d", i, k), "x")
			c.Tool = fmt.Sprintf("a tool with a rather long name, number %d of a server that has many, %d", k, i)
			c.Failed = true
			it.Calls = append(it.Calls, c)
		}
		history = append(history, human(fmt.Sprint("message ", i)), it)
	}
	for i := 0; i < len(history); i += 75 {
		s.request(history[:i])
	}
	s.request(history)
	b := s.state.Append(nil)
	if len(b) > 128<<10 {
		t.Errorf("the state has %d bytes", len(b))
	}
	if got := s.state.Stats(); got.Remembered != 30 || got.Total != 30_000 {
		t.Errorf("stats are %+v", got)
	}
}

func TestAStateIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &session{t: t, params: toolloop.DefaultParams(), now: noon}
		for range rapid.IntRange(0, 4).Draw(t, "requests") {
			s.step(drawEvidence(t))
			s.check(call("A", ""))
		}
		b := s.state.Append(nil)
		var read toolloop.State
		if err := read.Parse(b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.state.Stats(), read.Stats()); diff != "" {
			t.Fatal(diff)
		}
		if !bytes.Equal(read.Append(nil), b) {
			t.Fatal("written again it differs")
		}
	})
}
