// Package streak counts the semantic matches of one scope in a row, so that the action
// gets stronger while a loop goes on. It keeps a match that came too late for its own
// request until the scope's next request. It recognises requests that come again:
// retries, replays of calls that got no answer, and requests whose decision was asked
// for before.
//
// It does not know texts or how they are compared, and it reads no clock.
package streak

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/storepb"
)

// State is the record of a scope. The zero value is that of a new scope.
type State struct {
	// Matches in a row up to now.
	Matches int
	// Incident is the conversation that the streak is reported under: that of its first
	// match. Without a session, each wording of a prompt has another conversation.
	Incident string
	// Late is the similarity of a match whose request did not wait for it. It applies to
	// the next request; 0 for none.
	Late float64
	// Retries since the last compared request.
	Retries int
	// Calls are the calls that may be made again without counting, oldest first.
	Calls []Call
	// Aside are the ids of remembered texts that were replays, oldest first. Similarity
	// to them does not count.
	Aside []string
	// Released is when an operator released the scope, in Unix milliseconds; 0 for
	// never. Similarity to texts from before does not count.
	Released int64
}

// Released returns the state after an operator's release.
func Released(at time.Time) State { return State{Released: at.UnixMilli()} }

// Call is a call that got no answer, or that has an idempotency key.
type Call struct {
	// Text is the digest of the text, Key that of the idempotency key.
	Text string
	Key  string
	// Replays that did not count since it last counted.
	Replays int
	// Open says that the last call got no answer, so that the next is a replay.
	Open bool
}

const (
	// maxRetries bounds the retries in a row, and the replays of one text, that do not
	// count: a client can call every request a retry, and endless retries are a loop.
	maxRetries = 2
	// maxKept bounds the lists of a state; the oldest entries are removed. Only the few
	// texts of a history matter.
	maxKept = 16
)

// Recalled is the state of the requests before one.
type Recalled struct {
	// Matches in a row up to the last request.
	Matches int
	// Incident as kept in the state; "" for no streak.
	Incident string
	// Late is the similarity of a match that applies to this request; 0 for none.
	Late float64
	// Retry says that the request is a retry and is not compared.
	Retry bool
}

// Recall adds a request and returns the state of earlier ones. changed says that the state
// must be stored.
func Recall(s State, retry bool) (next State, r Recalled, changed bool) {
	next = s
	r = Recalled{Matches: s.Matches, Incident: s.Incident, Late: s.Late}
	next.Late = 0
	if retry && s.Retries < maxRetries {
		r.Retry = true
		next.Retries++
	} else {
		next.Retries = 0
	}
	return next, r, !next.Equal(s)
}

// Comparison is a worker's comparison of a request's text with earlier texts of the
// scope.
type Comparison struct {
	// Compared is false without a comparison: only the request begins.
	Compared bool
	// Incident is the conversation that a first match is reported under.
	Incident string
	// ID is the id of the text among those that are remembered, Text its digest, and
	// Key the digest of the request's idempotency key; "" for none.
	ID, Text, Key string
	// Similar says that the text is like MinMatches others or more. Matches are their
	// ids, At the times at which they were remembered in Unix milliseconds, nil if
	// unknown, and Similarity is that of the most similar one.
	Similar    bool
	Matches    []string
	At         []int64
	MinMatches int
	Similarity float64
	// Replaced is the beginning of the id of the text that this one replaces, because
	// both stand for the same request; "" for none.
	Replaced string
	// Late says that the request was answered without the comparison.
	Late bool
}

// Match is the result of a comparison.
type Match struct {
	Recalled
	// Similar says that it is a match, the Count-th in a row.
	Similar bool
	Count   int
	// Replay says that the request is the same one again, and no match.
	Replay bool
	// Known says that the match was counted when the decision was asked for.
	Known bool
}

// Compare begins a request, unless Recall has begun it, and applies its comparison: a
// match continues the streak, anything else ends it.
func Compare(s State, c Comparison) (State, Match) {
	var m Match
	if !c.Late {
		s, m.Recalled, _ = Recall(s, false)
	}
	if !c.Compared {
		return s, m
	}
	if s, m.Replay = s.replayed(c); m.Replay {
		return s, m
	}
	if m.Known = c.Replaced != ""; !m.Known && c.Key != "" {
		s.Calls = append(newest(s.Calls), Call{Text: c.Text, Key: c.Key})
	}
	m.Similar = c.Similar && s.enough(c)
	switch {
	case m.Similar && (!m.Known || s.Matches == 0):
		s.Matches++
	case !m.Similar && !m.Known:
		s.Matches, s.Incident = 0, ""
	}
	if m.Similar {
		s.Incident = cmp.Or(s.Incident, c.Incident)
		m.Incident = s.Incident
	}
	if m.Similar && c.Late {
		s.Late = c.Similarity
	}
	m.Count = s.Matches
	return s, m
}

// replayed reports whether the call got no answer before, or has the same idempotency
// key as a call before. Its text is then set aside, since it is remembered already.
func (s State) replayed(c Comparison) (State, bool) {
	if c.Replaced != "" {
		i := slices.IndexFunc(s.Aside, func(id string) bool { return strings.HasPrefix(id, c.Replaced) })
		if i >= 0 {
			s.Aside = slices.Clone(s.Aside)
			s.Aside[i] = c.ID
		}
		return s, i >= 0
	}
	i := s.call(c.Text)
	if i < 0 {
		return s, false
	}
	call := s.Calls[i]
	s.Calls = slices.Delete(slices.Clone(s.Calls), i, i+1)
	if !call.Open && (call.Key == "" || call.Key != c.Key) || call.Replays >= maxRetries {
		return s, false
	}
	call.Replays, call.Open = call.Replays+1, false
	s.Calls = append(newest(s.Calls), call)
	s.Aside = append(newest(s.Aside), c.ID)
	return s, true
}

func (s State) call(text string) int {
	return slices.IndexFunc(s.Calls, func(c Call) bool { return c.Text == text })
}

// enough reports whether enough of a comparison's matches count. A worker of an older
// version may have named none.
func (s State) enough(c Comparison) bool {
	if len(s.Aside) == 0 && (s.Released == 0 || len(c.At) == 0) {
		return true
	}
	n := 0
	for i, id := range c.Matches {
		released := i < len(c.At) && c.At[i] <= s.Released
		if !released && !slices.Contains(s.Aside, id) {
			n++
		}
	}
	return n >= max(c.MinMatches, 1)
}

// Excuse records that the call with a text got no answer.
func Excuse(s State, text string) State {
	c := Call{Text: text}
	if i := s.call(text); i >= 0 {
		c = s.Calls[i]
		s.Calls = slices.Delete(slices.Clone(s.Calls), i, i+1)
	}
	c.Open = true
	s.Calls = append(newest(s.Calls), c)
	return s
}

// newest returns a copy of the newest entries of a list, with room for one more.
func newest[T any](list []T) []T { return slices.Clone(list[max(0, len(list)-maxKept+1):]) }

// IsZero reports whether the state is that of a new scope.
func (s State) IsZero() bool { return s.Equal(State{}) }

// Equal reports whether two states are the same.
func (s State) Equal(o State) bool {
	return s.Matches == o.Matches && s.Incident == o.Incident && s.Late == o.Late && s.Retries == o.Retries && s.Released == o.Released &&
		slices.Equal(s.Calls, o.Calls) && slices.Equal(s.Aside, o.Aside)
}

// Parse reads what Append wrote.
func (s *State) Parse(stored []byte) error {
	var m storepb.Streak
	err := proto.Unmarshal(stored, &m)
	*s = State{
		Matches: int(m.GetMatches()), Incident: m.GetIncident(), Late: m.GetLate(), Retries: int(m.GetRetries()), Aside: m.GetAside(), Released: m.GetReleased(),
	}
	for _, c := range m.GetCalls() {
		s.Calls = append(s.Calls, Call{c.GetText(), c.GetKey(), int(c.GetReplays()), c.GetOpen()})
	}
	return err
}

// Append writes the state as a storepb.Streak after b.
func (s *State) Append(b []byte) []byte {
	m := &storepb.Streak{
		Matches: int64(s.Matches), Incident: s.Incident, Late: s.Late, Retries: int64(s.Retries), Aside: s.Aside, Released: s.Released,
	}
	for _, c := range s.Calls {
		m.Calls = append(m.Calls, &storepb.StreakCall{Text: c.Text, Key: c.Key, Replays: int64(c.Replays), Open: c.Open})
	}
	return storepb.Append(b, m)
}
