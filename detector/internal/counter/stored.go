package counter

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/hitid"
	"github.com/unloop/unloop/schemas/storepb"
)

// Parse reads what Append wrote.
func (s *State) Parse(stored []byte) error {
	var m storepb.Counter
	err := proto.Unmarshal(stored, &m)
	*s = stateOf(&m)
	return err
}

// stateOf returns the state of a record.
func stateOf(m *storepb.Counter) State {
	s := State{
		Count: int(m.GetCount()), First: m.GetFirst(), Last: m.GetLast(), Hits: since(m.GetLast(), m.GetAgo()), BlockedUntil: m.GetBlockedUntil(),
		Forgiven: int(m.GetForgiven()), Excused: m.GetExcused(), Aborted: int(m.GetAborted()), Key: m.GetKey(), Incident: m.GetIncident(),
		IDs: hitid.IDs(m.GetIds()), Messages: int(m.GetMessages()), Before: int(m.GetBefore()), Asked: m.GetAsked(), Rounds: int(m.GetRounds()),
		Slow: since(m.GetLast(), m.GetSlowAgo()), Turns: m.GetTurns(), Usual: m.GetUsual(),
	}
	for _, p := range m.GetParts() {
		s.Parts = append(s.Parts, Part{p.GetMark(), stateOf(p.GetState())})
	}
	for _, i := range m.GetTurn() {
		if int(i) < len(s.Parts) {
			s.Turns = append(s.Turns, s.Parts[i].Mark)
		}
	}
	return s
}

// Append writes the state as a storepb.Counter.
func (s State) Append(b []byte) []byte { return storepb.Append(b, s.message()) }

func (s State) message() *storepb.Counter {
	m := &storepb.Counter{
		Count: int64(s.Count), First: s.First, Last: s.Last, Ago: since(s.Last, s.Hits), BlockedUntil: s.BlockedUntil,
		Forgiven: int64(s.Forgiven), Excused: s.Excused, Aborted: int64(s.Aborted), Key: s.Key, Incident: s.Incident,
		Ids: string(s.IDs), Messages: int64(s.Messages), Before: int64(s.Before), Asked: s.Asked, Rounds: int64(s.Rounds),
		SlowAgo: since(s.Last, s.Slow), Usual: s.Usual,
	}
	for _, p := range s.Parts {
		m.Parts = append(m.Parts, &storepb.CounterPart{Mark: p.Mark, State: p.State.message()})
	}
	for _, mark := range s.Turns {
		i := slices.IndexFunc(s.Parts, func(p Part) bool { return p.Mark == mark })
		if i < 0 {
			m.Turn, m.Turns = nil, s.Turns
			break
		}
		m.Turn = append(m.Turn, uint32(i))
	}
	return m
}

// since converts times to milliseconds before last, and those to times.
func since(last int64, times []int64) []int64 {
	if times == nil {
		return nil
	}
	out := make([]int64, len(times))
	for i, at := range times {
		out[i] = last - at
	}
	return out
}
