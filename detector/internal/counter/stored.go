package counter

import (
	"encoding/json"
	"slices"

	"github.com/unloop/unloop/detector/internal/jsonrecord"
)

// stored is a state as JSON. Lists of times are stored as milliseconds before the newest
// hit, and the newest parts as indexes; versions before this one stored them as they are
// in the state.
type stored struct {
	State
	Ago     []int64  `json:"ago"`
	SlowAgo []int64  `json:"slow_ago"`
	Parts   []inPart `json:"parts"`
	Turn    []int    `json:"turn"`
}

type inPart struct {
	Mark  string `json:"mark"`
	State stored `json:"state"`
}

// Parse reads what Append wrote, and what versions before this one did.
func (s *State) Parse(b []byte) error {
	var in stored
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*s = in.state()
	return nil
}

func (in *stored) state() State {
	s := in.State
	for _, ago := range in.Ago {
		s.Hits = append(s.Hits, s.Last-ago)
	}
	for _, ago := range in.SlowAgo {
		s.Slow = append(s.Slow, s.Last-ago)
	}
	for i := range in.Parts {
		s.Parts = append(s.Parts, Part{in.Parts[i].Mark, in.Parts[i].State.state()})
	}
	for _, i := range in.Turn {
		if 0 <= i && i < len(s.Parts) {
			s.Turns = append(s.Turns, s.Parts[i].Mark)
		}
	}
	return s
}

// Append writes the state as JSON.
func (s State) Append(b []byte) []byte {
	b = jsonrecord.Int(append(b, '{'), "count", int64(s.Count))
	b = jsonrecord.Int(b, "first", s.First)
	b = jsonrecord.Number(b, "last", s.Last)
	b = s.appendTimes(b, "ago", s.Hits)
	b = jsonrecord.Int(b, "blocked_until", s.BlockedUntil)
	b = jsonrecord.Int(b, "forgiven", int64(s.Forgiven))
	if s.Excused {
		b = append(jsonrecord.Name(b, "excused"), "true"...)
	}
	b = jsonrecord.Int(b, "aborted", int64(s.Aborted))
	b = jsonrecord.String(b, "key", s.Key)
	b = jsonrecord.String(b, "incident", s.Incident)
	b = jsonrecord.String(b, "ids", string(s.IDs))
	b = jsonrecord.Strings(b, "asked", s.Asked)
	b = jsonrecord.Int(b, "rounds", int64(s.Rounds))
	b = jsonrecord.Int(b, "messages", int64(s.Messages))
	b = jsonrecord.Int(b, "before", int64(s.Before))
	b = jsonrecord.List(b, "parts", s.Parts, func(b []byte, p Part) []byte {
		b = jsonrecord.String(append(b, '{'), "mark", p.Mark)
		return append(p.State.Append(jsonrecord.Name(b, "state")), '}')
	})
	b = s.appendTimes(b, "slow_ago", s.Slow)
	return append(s.appendTurns(b), '}')
}

// appendTimes appends a field with times as milliseconds before the newest hit.
func (s State) appendTimes(b []byte, name string, times []int64) []byte {
	return jsonrecord.List(b, name, times, func(b []byte, at int64) []byte { return jsonrecord.AppendInt(b, s.Last-at) })
}

// appendTurns appends the parts that were hit last by their indexes, or by their marks
// where a part is gone.
func (s State) appendTurns(b []byte) []byte {
	turn := make([]int64, 0, maxTurns)
	for _, mark := range s.Turns {
		i := slices.IndexFunc(s.Parts, func(p Part) bool { return p.Mark == mark })
		if i < 0 {
			return jsonrecord.Strings(b, "turns", s.Turns)
		}
		turn = append(turn, int64(i))
	}
	return jsonrecord.Ints(b, "turn", turn)
}
