package detector_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Three detectors that share the records of a session decide, report and release as one
// does, whichever of them is asked.
func TestThreeDetectorsAreAlikeOne(t *testing.T) {
	t.Parallel()
	var c clock
	one, three := newSide(t, &c, 1), newSide(t, &c, 3)
	const enough = 30 // sessions
	run, void, failing := 0, 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if run++; run > enough && !failing {
			return
		}
		defer func() { failing = failing || rt.Failed() }()
		s := &sessions{rt: rt, clock: &c, sides: []*side{one, three}, name: fmt.Sprint("session ", run)}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			if !s.step() {
				void++
				return
			}
		}
		s.compareEvents()
	})
	if void > enough/2 {
		t.Errorf("%d of %d sessions have a check that was not counted", void, enough)
	}
	if n := three.handedOver(t); n < enough {
		t.Errorf("%g steps were handed over in %d sessions", n, enough)
	}
}

// sessions are one random session on several sides.
type sessions struct {
	rt    *rapid.T
	clock *clock
	sides []*side
	name  string

	requests int
	items    []*checkpb.HistoryItem
	last     *checkpb.Check
	// loops are the ids of loops by their order and the side. An operator has tried to
	// release those that are tried, and has released those that are released.
	loops           [][]string
	tried, released []bool
}

// step makes one random step; false if a side could not count it in time.
func (s *sessions) step() bool {
	switch rapid.IntRange(0, 19).Draw(s.rt, "kind") {
	case 0:
		s.settle() // findings are stored at the latest half a second after they are made
		s.clock.advance(time.Duration(rapid.IntRange(1, 90).Draw(s.rt, "seconds")) * time.Second)
	case 1:
		if s.last != nil {
			s.excuse()
		}
	case 2:
		if open := slices.Index(s.tried, false); open >= 0 {
			s.settle()
			s.release(open)
		}
	default:
		return s.check()
	}
	return true
}

// check asks all sides about the session's next request.
func (s *sessions) check() bool {
	s.requests++
	s.clock.advance(time.Millisecond)
	text := rapid.SampledFrom([]string{"one", "two"}).Draw(s.rt, "text")
	n := len(s.items)
	if tool := rapid.SampledFrom([]string{"read", "poll", "", "read"}).Draw(s.rt, "tool"); tool != "" {
		item := round(n, tool, rapid.SampledFrom([]string{"same", "same", "other"}).Draw(s.rt, "result"))
		item.Calls[0].Poll = tool == "poll"
		s.items = append(s.items, item)
	} else {
		s.items = append(s.items, human(text))
	}
	check := s.checkOf(text)
	check.Retry, check.Peek = rapid.IntRange(0, 9).Draw(s.rt, "retry") == 0, rapid.IntRange(0, 9).Draw(s.rt, "peek") == 0
	at := rapid.IntRange(0, 2).Draw(s.rt, "detector")
	s.last = check
	decisions := make([]*checkpb.Decision, len(s.sides))
	for i, side := range s.sides {
		if decisions[i] = side.ask(s.rt, at, check); decisions[i].GetError() != "" {
			return false
		}
	}
	if !check.GetPeek() {
		for i, side := range s.sides {
			side.note(decisions[i])
		}
	}
	s.nameLoops(decisions)
	if diff := cmp.Diff(decisions[0], decisions[1], protocmp.Transform()); diff != "" {
		s.rt.Fatalf("request %d (-one +three):\n%s", s.requests, diff)
	}
	return true
}

// nameLoops replaces the ids of loops by their order.
func (s *sessions) nameLoops(decisions []*checkpb.Decision) {
	one, three := loopIDs(decisions[0]), loopIDs(decisions[1])
	for j := range min(len(one), len(three)) {
		ids := []string{*one[j], *three[j]}
		n := slices.IndexFunc(s.loops, func(known []string) bool { return slices.Equal(known, ids) })
		if n < 0 {
			n, s.loops, s.tried, s.released = len(s.loops), append(s.loops, ids), append(s.tried, ids[0] == ""), append(s.released, false)
		}
		*one[j], *three[j] = fmt.Sprint("loop ", n), fmt.Sprint("loop ", n)
	}
}

// loopIDs are the ids of loops in a decision.
func loopIDs(d *checkpb.Decision) (all []*string) {
	for _, f := range d.GetFindings() {
		all = append(all, &f.LoopId)
	}
	for _, l := range d.GetLimits() {
		all = append(all, &l.LoopId)
	}
	return all
}

func (s *sessions) hash(of string) []byte {
	sum := sha256.Sum256([]byte(s.name + of))
	return sum[:]
}

// checkOf is a check by all detectors, in two policies.
func (s *sessions) checkOf(text string) *checkpb.Check {
	check := toolCheck(s.items...)
	check.RequestId, check.InputTokens, check.Identity.Session = fmt.Sprint(s.name, s.requests), uint32(10*s.requests), hex.EncodeToString(s.hash("session"))
	check.Exchange = &semanticpb.Exchange{Answered: text}
	check.Excerpt = &checkpb.Excerpt{Text: text, Policies: []string{"default"}}
	w := check.GetWatches()[0]
	w.Agent = s.hash("agent")
	setTool(w, func(t *policy.Tool) { t.PollMultiplier = 4 })
	semantic := meaningCheck().GetSemantics()[0]
	semantic.Scope = s.hash("scope")
	check.Semantics = []*checkpb.SemanticWatch{semantic}
	together := slices.Concat(s.hash(text)[:16], make([]byte, 8), s.hash("model")[:8])
	check.Counters = []*checkpb.Counter{{
		Policy: "default", Detector: "prompt", Fingerprint: slices.Concat(together[:16], s.hash("session")[:8], together[24:]), Parted: true,
		Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60, Threshold: 5, CooldownSeconds: 30, HintRounds: 3, Rounds: uint32(s.requests / 2),
		Steps: []*checkpb.Step{{At: 6, Action: checkpb.Action_ACTION_REJECT}}, SlowHits: 9, SlowSeconds: 600,
		Together: &checkpb.Together{Fingerprint: together, Threshold: 10, Steps: []*checkpb.Step{{At: 11, Action: checkpb.Action_ACTION_REJECT}}},
	}, {
		Policy: "other", Detector: "request", Fingerprint: s.hash("request " + text), Window: checkpb.Window_WINDOW_REFRESH, WindowSeconds: 120, Threshold: 3,
		Steps: []*checkpb.Step{{At: 3, Action: checkpb.Action_ACTION_WARN}, {At: 7, Action: checkpb.Action_ACTION_THROTTLE}},
	}}
	check.Limits = []*checkpb.Limit{
		{Policy: "other", Rule: "few", Key: s.hash("key"), Cost: 1, Bucket: &checkpb.Bucket{Rate: 0.05, Capacity: 6}},
		{Policy: "other", Rule: "month", Key: s.hash("key"), Cost: 1, Budget: &checkpb.Budget{Amount: 20, PeriodSeconds: 30 * 24 * 3600, Stages: []*checkpb.Stage{
			{Percent: 50, Action: checkpb.Action_ACTION_WARN}, {Percent: 100, Action: checkpb.Action_ACTION_REJECT},
		}}},
		{Policy: "other", Rule: finding.CircuitBreaker, Key: s.hash("key"), Cost: 1, Breaker: &checkpb.Breaker{Threshold: 12, ResetSeconds: 120}},
	}
	return check
}

// excuse reports that the newest request got no answer.
func (s *sessions) excuse() {
	o := &checkpb.Outcome{Counters: s.last.GetCounters(), Aborted: rapid.Bool().Draw(s.rt, "aborted")}
	body, err := proto.Marshal(o)
	if err != nil {
		s.rt.Fatal(err)
	}
	for _, side := range s.sides {
		side.request(s.rt, schemas.SubjectOutcome, body, &checkpb.Decision{})
	}
}

// release releases a loop on all sides.
func (s *sessions) release(loop int) {
	s.tried[loop] = true
	replies := make([]*checkpb.ReleaseReply, len(s.sides))
	for i, side := range s.sides {
		body, err := proto.Marshal(&checkpb.ReleaseRequest{LoopId: s.loops[loop][i]})
		if err != nil {
			s.rt.Fatal(err)
		}
		replies[i] = &checkpb.ReleaseReply{}
		side.request(s.rt, schemas.SubjectRelease, body, replies[i])
	}
	byName := func(a, b *checkpb.CounterRef) bool { return a.String() < b.String() }
	if diff := cmp.Diff(replies[0], replies[1], protocmp.Transform(), protocmp.SortRepeated(byName)); diff != "" {
		s.rt.Fatalf("release of loop %d (-one +three):\n%s", loop, diff)
	}
	s.released[loop] = replies[0].GetError() == ""
}

// settle waits until the records of the session's incidents have all findings, and are the
// same on all sides.
func (s *sessions) settle() {
	deadline := time.After(patience)
	for {
		diff := cmp.Diff(s.records(0), s.records(1))
		missing := s.sides[0].missing() + s.sides[1].missing()
		if diff == "" && missing == "" {
			return
		}
		var entry jetstream.KeyValueEntry
		var of *side
		select {
		case entry = <-s.sides[0].updates.Updates():
			of = s.sides[0]
		case entry = <-s.sides[1].updates.Updates():
			of = s.sides[1]
		case <-deadline:
			s.rt.Fatalf("incidents lack %s (-one +three):\n%s", missing, diff)
		}
		if entry == nil {
			continue
		}
		var in openloop.Record
		if delete(of.incidents, entry.Key()); in.Parse(entry.Value()) == nil && in.LoopID != "" {
			of.incidents[entry.Key()] = in
			if known := of.found[in.LoopID]; known != nil {
				known.stored = true
			}
		}
	}
}

// records are the incidents of the session on a side, without what differs between sides.
func (s *sessions) records(i int) map[string]openloop.Record {
	all := map[string]openloop.Record{}
	for _, ids := range s.loops {
		for key, in := range s.sides[i].incidents {
			if in.LoopID == ids[i] {
				in.Data, in.Updates, in.FoundAt, in.Reported, in.Former, in.Announced = alike(in.Data), nil, nil, openloop.Reported{}, nil, false
				slices.SortFunc(in.Counters, func(a, b openloop.Counter) int { return cmpText(a, b) })
				all[key] = in
			}
		}
	}
	return all
}

// alike returns the data of an event without what differs between sides.
func alike(d event.Data) event.Data {
	d.LoopID, d.Findings = "", slices.Clone(d.Findings)
	slices.SortFunc(d.Findings, func(a, b event.Finding) int { return cmpText(a, b) })
	return d
}

func cmpText(a, b any) int { return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b))) }

// compareEvents waits for the beginnings and ends of the session's loops and compares them.
func (s *sessions) compareEvents() {
	for loop, ids := range s.loops {
		if ids[0] == "" {
			continue
		}
		types := []event.Type{event.Detected}
		if s.released[loop] {
			types = append(types, event.Resolved)
		}
		for _, typ := range types {
			one, three := s.sides[0].event(s.rt, ids[0], typ), s.sides[1].event(s.rt, ids[1], typ)
			if diff := cmp.Diff(alike(one.Data), alike(three.Data)); diff != "" {
				s.rt.Fatalf("%s of loop %d (-one +three):\n%s", typ, loop, diff)
			}
		}
	}
}
