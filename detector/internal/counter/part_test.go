package counter

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/schemas/checkpb"
)

// fingerprintOf is a fingerprint with parts: of a prompt, a session and a model.
func fingerprintOf(prompt, session, model byte) []byte {
	return slices.Concat(bytes.Repeat([]byte{prompt}, recordSize), bytes.Repeat([]byte{session}, markHalf), bytes.Repeat([]byte{model}, markHalf))
}

// parted are the parameters of a counter with parts, as a gateway sends them.
func parted(t *testing.T, session, model byte, edit func(*checkpb.Counter)) Parts {
	t.Helper()
	c := &checkpb.Counter{
		Parted: true, Fingerprint: fingerprintOf(1, session, model), Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60, CooldownSeconds: 30,
		Steps: []*checkpb.Step{{At: 3, Action: reject}}, SlowHits: 5, SlowSeconds: 600, HintRounds: 3,
		Together: &checkpb.Together{Fingerprint: fingerprintOf(1, 0, model), Steps: []*checkpb.Step{{At: 4, Action: reject}}},
	}
	if edit != nil {
		edit(c)
	}
	p, err := PartsFromWire(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEachPartCountsForItself(t *testing.T) {
	t.Parallel()
	a, b := parted(t, 1, 1, nil), parted(t, 2, 1, nil)
	var s State
	var v PartVerdict
	for i, c := range []struct {
		parts    Parts
		count    int
		fired    bool
		together bool
	}{
		{a, 1, false, false}, {b, 1, false, false}, {a, 2, false, false},
		{b, 4, true, true},  // two of its own, four of both
		{a, 3, true, false}, // its own count goes first
	} {
		s, v = StepPart(s, c.parts, Hit{Incident: "conversation"}, epoch.Add(time.Duration(i)*time.Second))
		if v.Count != c.count || v.Fired != c.fired || v.Together != c.together {
			t.Errorf("hit %d: %+v; want count %d, fired %t, together %t", i+1, v, c.count, c.fired, c.together)
		}
	}
	if ttl := s.PartsTTL(a, epoch.Add(4*time.Second)); ttl != 601*time.Second {
		t.Errorf("the record is kept for %s", ttl)
	}
	if MarkOf(fingerprintOf(1, 2, 3)) != strings.Repeat("02", 8)+strings.Repeat("03", 8) {
		t.Error("the mark of a part")
	}
	var back State
	if err := back.Parse(s.Append(nil)); err != nil || !cmp.Equal(s, back) {
		t.Errorf("stored %s: %v", s.Append(nil), cmp.Diff(s, back))
	}
}

func TestAnExcusedPartDoesNotCountItsReplay(t *testing.T) {
	t.Parallel()
	p := parted(t, 1, 1, nil)
	s, _ := StepPart(State{}, p, Hit{}, epoch)
	s = ExcusePart(s, p.Mark, false)
	if len(s.Turns) != 0 {
		t.Errorf("turns %v", s.Turns)
	}
	s, v := StepPart(s, p, Hit{}, epoch.Add(time.Second))
	if v.Count != 1 || v.Counted {
		t.Errorf("replay: %+v", v)
	}
	if _, v = StepPart(s, p, Hit{}, epoch.Add(2*time.Second)); v.Count != 2 {
		t.Errorf("the next one: %+v", v)
	}
}

func TestTheLongWindowWarnsAtItsCount(t *testing.T) {
	t.Parallel()
	p := parted(t, 1, 1, nil)
	var s State
	for i := range 7 {
		var v PartVerdict
		s, v = StepPart(s, p, Hit{}, epoch.Add(time.Duration(i)*90*time.Second))
		if want := max(0, min(i+1, 5)/5*5); v.Slow != want || v.Count != 1 {
			t.Errorf("hit %d: slow %d, count %d, want %d and 1", i+1, v.Slow, v.Count, want)
		}
	}
}

func TestTwoModelsInTurnAreNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		marks string
		idle  time.Duration
		want  bool
	}{
		"A B A B":            {"1212", time.Second, true},
		"A B A C":            {"1213", time.Second, false},
		"A A A A":            {"1111", time.Second, false},
		"A B A B, far apart": {"1212", 2 * time.Minute, false},
	} {
		var s State
		var v PartVerdict
		for i, model := range []byte(c.marks) {
			s, v = StepPart(s, parted(t, 1, model-'0', nil), Hit{}, epoch.Add(time.Duration(i)*c.idle))
		}
		if v.InTurn != c.want {
			t.Errorf("%s: in turn %t", name, v.InTurn)
		}
	}
	var s State
	var v PartVerdict
	for i := range 4 { // two sessions, each with a model
		s, v = StepPart(s, parted(t, byte(1+i%2), byte(1+i%2), nil), Hit{}, epoch)
	}
	if v.InTurn {
		t.Error("two sessions are no turns of one")
	}
}

func TestARoundMoreThanBeforeIsHintedAt(t *testing.T) {
	t.Parallel()
	p := parted(t, 1, 1, nil)
	var s State
	for i, c := range []struct {
		rounds int
		hint   bool
	}{{2, false}, {3, true}, {3, false}, {4, true}} {
		var v PartVerdict
		if s, v = StepPart(s, p, Hit{Rounds: c.rounds}, epoch.Add(time.Duration(i)*time.Second)); v.Hint != c.hint {
			t.Errorf("%d rounds: hint %t", c.rounds, v.Hint)
		}
	}
}

// A record holds a bounded number of parts, of hit times and of ids; the oldest go.
func TestPartsOfARecordAreBounded(t *testing.T) {
	t.Parallel()
	var s State
	for i := range maxParts + 10 {
		p := parted(t, byte(i), byte(i>>8), func(c *checkpb.Counter) { c.Together = nil })
		s, _ = StepPart(s, p, Hit{}, epoch)
	}
	if len(s.Parts) != maxParts {
		t.Errorf("%d parts", len(s.Parts))
	}
	s = State{}
	for i := range 3 * maxIDs / 4 { // 512 hits on each of three parts
		p := parted(t, byte(i/(hitid.MaxIDs/2)), 0, func(c *checkpb.Counter) { c.Together, c.Steps[0].At = nil, MaxThreshold })
		for n := range 4 {
			s, _ = StepPart(s, p, Hit{ID: fmt.Sprintf("%06d-%d", i, n)}, epoch)
		}
	}
	ids := 0
	for _, p := range s.Parts {
		ids += p.State.IDs.Len()
	}
	if newest := s.Parts[len(s.Parts)-1].State.IDs; ids != maxIDs || !newest.Has(fmt.Sprintf("%06d-3", 3*maxIDs/4-1)) {
		t.Errorf("%d ids, want %d; of the newest part %d", ids, maxIDs, newest.Len())
	}
	s = State{}
	for i := range 6 {
		p := parted(t, byte(i), 0, func(c *checkpb.Counter) { c.Together, c.Steps[0].At = nil, MaxThreshold })
		s, _ = StepPart(s, p, Hit{N: MaxThreshold}, epoch)
	}
	if hits := len(s.Parts) * MaxThreshold; hits > 3*MaxThreshold {
		t.Errorf("%d hit times", hits)
	}
}

func TestPartsThatNoGatewaySendsAreRefused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*checkpb.Counter){
		"the counter":     func(c *checkpb.Counter) { c.Fingerprint = nil },
		"slow hits":       func(c *checkpb.Counter) { c.SlowHits = maxSlow + 1 },
		"the long window": func(c *checkpb.Counter) { c.SlowSeconds = 400 * 24 * 60 * 60 },
		"another record":  func(c *checkpb.Counter) { c.Together.Fingerprint = fingerprintOf(2, 0, 1) },
		"no steps":        func(c *checkpb.Counter) { c.Together.Steps = nil },
	} {
		c := &checkpb.Counter{
			Fingerprint: fingerprintOf(1, 1, 1), WindowSeconds: 60, Steps: []*checkpb.Step{{At: 3, Action: reject}},
			Together: &checkpb.Together{Fingerprint: fingerprintOf(1, 0, 1), Steps: []*checkpb.Step{{At: 4, Action: reject}}},
		}
		edit(c)
		if _, err := PartsFromWire(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Answers without a call that repeat themselves are hinted and stopped where they come
// quickly; complaints at any pace.
func TestRoundsOfAnswersCountWhereTheyComeQuickly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closed      bool
		gap         time.Duration
		hints, stop int // rounds with a hint, and the first that is stopped
	}{
		"quick answers":     {true, 15 * time.Second, 4, 6},
		"an agent is woken": {true, 25 * time.Second, 0, 0},
		"a slow complaint":  {false, 10 * time.Minute, 4, 6},
		"a quick complaint": {false, time.Second, 4, 6},
	} {
		p := parted(t, 1, 1, func(w *checkpb.Counter) {
			w.StopRounds, w.Closed, w.Steps, w.Together = 6, c.closed, []*checkpb.Step{{At: 50, Action: reject}}, nil
		})
		var s State
		hints, stop := 0, 0
		for rounds := 1; rounds <= 6; rounds++ {
			var v PartVerdict
			s, v = StepPart(s, p, Hit{Rounds: rounds}, epoch.Add(time.Duration(rounds)*c.gap))
			if v.Hint {
				hints++
			}
			if v.Stop && stop == 0 {
				stop = rounds
			}
		}
		if hints != c.hints || stop != c.stop {
			t.Errorf("%s: %d hints, stopped at round %d; want %d and %d", name, hints, stop, c.hints, c.stop)
		}
	}
}

// A replay of a request, or the request after a check of it, is hinted and stopped as that
// was: its own pace is not that of the rounds.
func TestAReplayHasThePaceOfItsRound(t *testing.T) {
	t.Parallel()
	p := parted(t, 1, 1, func(w *checkpb.Counter) {
		w.StopRounds, w.Closed, w.Steps, w.Together = 6, true, []*checkpb.Step{{At: 50, Action: reject}}, nil
	})
	for name, c := range map[string]struct {
		first, again Hit
		gap          time.Duration
		stopped      bool
	}{
		"a retry, an agent is woken":   {Hit{}, Hit{Retry: true}, 25 * time.Second, false},
		"a checked one, it is woken":   {Hit{Request: "r", Asked: true}, Hit{Request: "r"}, 25 * time.Second, false},
		"a retry, quick answers":       {Hit{}, Hit{Retry: true}, 5 * time.Second, true},
		"a checked one, quick answers": {Hit{Request: "r", Asked: true}, Hit{Request: "r"}, 5 * time.Second, true},
	} {
		var s State
		var v, replay PartVerdict
		for rounds := 1; rounds <= 6; rounds++ {
			at := epoch.Add(time.Duration(rounds) * c.gap)
			first, again := c.first, c.again
			first.Rounds, again.Rounds = rounds, rounds
			s, v = StepPart(s, p, first, at)
			if rounds > 4 { // replays are forgiven twice
				s, replay = StepPart(s, p, again, at.Add(time.Second))
			}
			if replay.Hint || v.Hint != (c.stopped && rounds >= 3) {
				t.Errorf("%s: round %d is hinted: %v, its replay: %v", name, rounds, v.Hint, replay.Hint)
			}
		}
		if v.Stop != c.stopped || replay.Stop != c.stopped || replay.Counted {
			t.Errorf("%s: stopped %v, its replay %+v", name, v.Stop, replay)
		}
	}
}
