package counter

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRequestThatWasAskedAboutCountsOnce(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	var s State
	for call := range 5 {
		id := fmt.Sprintf("call-%d", call)
		var asked, sent Verdict
		s, asked = Step(s, p, Hit{Request: id, Asked: true}, epoch)
		s, sent = Step(s, p, Hit{Request: id}, epoch)
		if asked.Count != call+1 || sent.Count != call+1 || asked.Known || !sent.Known {
			t.Fatalf("call %d: asked %+v, sent %+v; want both to be hit %d", call, asked, sent, call+1)
		}
	}
	if s, v := Step(s, p, Hit{Request: "call-4"}, epoch); v.Count != 6 || v.Action != reject || s.Asked != nil {
		t.Errorf("the last id sent once more: %+v, state %+v; want a sixth hit", v, s)
	}
}

func TestOnlyAskingSavesARequestFromBeingCounted(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 30*time.Second)
	for name, h := range map[string]Hit{
		"one id for all requests":        {Request: "trace-1"},
		"no id":                          {},
		"asking again and again":         {Request: "trace-1", Asked: true},
		"asking again without an id":     {Asked: true},
		"asking about many of one id":    {Request: "trace-1", Asked: true, N: 1},
		"a report of what was blocked":   {Request: "trace-1", N: 1},
		"an id that nobody asked about ": {Request: "forged"},
	} {
		if _, v := hitsOf(State{}, p, h, 6); !v.Fired || v.Count != 6 {
			t.Errorf("%s: sixth hit %+v, want it caught", name, v)
		}
	}
}

// hitsOf is n times the same hit.
func hitsOf(s State, p Params, h Hit, n int) (State, Verdict) {
	var v Verdict
	for range n {
		s, v = Step(s, p, h, epoch)
	}
	return s, v
}

func TestParallelRequestsAreToldApart(t *testing.T) {
	t.Parallel()
	p := prompt(100, time.Minute, 0)
	var s State
	for i := range maxAsked {
		s, _ = Step(s, p, Hit{Request: fmt.Sprint(i), Asked: true}, epoch)
	}
	for i := range maxAsked {
		var v Verdict
		if s, v = Step(s, p, Hit{Request: fmt.Sprint(maxAsked - 1 - i)}, epoch); v.Count != maxAsked {
			t.Fatalf("request %d has count %d, want the %d that were asked about", i, v.Count, maxAsked)
		}
	}
}

func TestAnAskedAboutReplayIsForgivenOnceInAll(t *testing.T) {
	t.Parallel()
	p := prompt(5, time.Minute, 0)
	s, _ := Step(State{}, p, Hit{Request: "a", Asked: true}, epoch)
	s, _ = Step(s, p, Hit{Request: "a"}, epoch)
	s, _ = Step(Excuse(s, false), p, Hit{Request: "b", Asked: true}, epoch)
	s, v := Step(s, p, Hit{Request: "b"}, epoch)
	if v.Count != 1 || s.Forgiven != 1 {
		t.Errorf("replay after a failure, asked about: count %d, forgiven %d; want 1 and 1", v.Count, s.Forgiven)
	}
}

func TestMarksAreForgottenWithTheWindow(t *testing.T) {
	t.Parallel()
	p := request(5, time.Minute, reject)
	s, _ := Step(State{}, p, Hit{Request: "a", Asked: true}, epoch)
	s, v := Step(s, p, Hit{Request: "a"}, epoch.Add(2*time.Minute))
	if v.Count != 1 || v.Known || s.Asked != nil {
		t.Errorf("in the next window: %+v, state %+v; want a first hit", v, s)
	}
}

// However asking and sending interleave, a request counts when it is first
// seen, at least; marks are bounded and survive storage.
func TestEveryAskedHitCountsAndMarksAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := prompt(1000, time.Hour, 0)
		var s State
		asked, sent := map[string]int{}, map[string]int{}
		for range rapid.IntRange(1, 80).Draw(t, "hits") {
			h := Hit{Request: rapid.StringMatching(`[a-e]`).Draw(t, "id"), Asked: rapid.Bool().Draw(t, "asked")}
			var v Verdict
			s, v = Step(s, p, h, epoch)
			if h.Asked {
				asked[h.Request]++
			} else {
				sent[h.Request]++
			}
			least, most := 0, 0
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				least += max(asked[id], sent[id]-asked[id])
				most += asked[id] + sent[id]
			}
			if v.Count > most || v.Count < least || len(s.Asked) > maxAsked {
				t.Fatalf("count %d of %v asked and %v sent, %d marks", v.Count, asked, sent, len(s.Asked))
			}
			var back State
			if err := back.Parse(s.Append(nil)); err != nil {
				t.Fatalf("stored state %s: %v", s.Append(nil), err)
			}
			if diff := cmp.Diff(s, back); diff != "" {
				t.Fatalf("stored and read (-before +after):\n%s", diff)
			}
		}
	})
}

// A check that is sent to a second detector, since the first was killed, counts once.
func TestAHitThatIsSentAgainCountsOnce(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Params{"prompt": prompt(2, time.Minute, 30*time.Second), "request": request(3, time.Minute, throttle)} {
		var s State
		var v Verdict
		for i := range 3 {
			h := Hit{ID: fmt.Sprintf("hit%05d", i)}
			s, _ = Step(s, p, h, epoch)
			s, v = Step(s, p, h, epoch)
			if v.Count != i+1 || v.Fired != (i == 2) || !v.Known || v.Counted {
				t.Errorf("%s: hit %d, sent twice: %+v", name, i+1, v)
			}
		}
		if _, v = Step(s, p, Hit{ID: "hit00003"}, epoch); v.Count != 4 || v.Known {
			t.Errorf("%s: the next hit: %+v", name, v)
		}
	}
}

// Neither the count of a session nor that of all together has a hit twice.
func TestAHitOnARecordWithPartsThatIsSentAgainCountsOnce(t *testing.T) {
	t.Parallel()
	own := prompt(9, time.Minute, 0)
	p := Parts{Own: own, Mark: "aa", Together: own, TogetherMark: "00", SlowHits: 9, SlowLength: time.Hour}
	s, _ := StepPart(State{}, p, Hit{ID: "hit00001"}, epoch)
	s, v := StepPart(s, p, Hit{ID: "hit00001"}, epoch)
	if v.Count != 1 || s.part("00").Count != 1 || len(s.Slow) != 1 {
		t.Errorf("verdict %+v, state %+v", v, s)
	}
}
