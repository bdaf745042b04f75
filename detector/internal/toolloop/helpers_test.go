package toolloop_test

import (
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/fingerprint"
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

func hash(s string) fingerprint.Digest { return fingerprint.String([]byte(s)) }

// call is a call of the tool and arguments named by what, with a result; an
// empty result is not known yet.
func call(what, result string) toolloop.Call {
	c := toolloop.Call{Tool: what[:1], Key: hash(what)}
	if result != "" {
		c.Result = hash(result)
	}
	return c
}

func failure(what, message string) toolloop.Call {
	c := call(what, message)
	c.Failed, c.Class = true, errorClass(message)
	return c
}

func pollCall(what, result string) toolloop.Call {
	c := call(what, result)
	c.Poll = true
	return c
}

func round(calls ...toolloop.Call) toolloop.Item { return toolloop.Item{Calls: calls} }

func human(text string) toolloop.Item { return toolloop.Item{Human: hash(text)} }

// rounds has a round of one call for each word: "A:r" is A with result r.
func rounds(words ...string) (items []toolloop.Item) {
	for _, w := range words {
		what, result := w, ""
		for i := range w {
			if w[i] == ':' {
				what, result = w[:i], w[i+1:]
				break
			}
		}
		items = append(items, round(call(what, result)))
	}
	return items
}

func repeat(n int, items ...toolloop.Item) (out []toolloop.Item) {
	for range n {
		out = append(out, items...)
	}
	return out
}

func join(lists ...[]toolloop.Item) (out []toolloop.Item) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// tester is what *testing.T and *rapid.T have in common, as far as it is needed.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// session drives the functions under test as one session that has an id of its
// own.
type session struct {
	t      tester
	state  toolloop.State
	params toolloop.Params
	now    time.Time
	pace   time.Duration     // between requests
	shared toolloop.Evidence // what every request of the session has
}

func newSession(t testing.TB) *session {
	return &session{t: t, params: toolloop.DefaultParams(), now: noon, pace: time.Second, shared: toolloop.Evidence{Own: true}}
}

func derivedSession(t testing.TB) *session {
	s := newSession(t)
	s.shared.Own = false
	return s
}

// keep stores the state and reads it again, as between two requests.
func (s *session) keep(state toolloop.State) {
	b := state.Append(nil)
	if err := s.state.Parse(b); err != nil {
		s.t.Fatal(err)
	}
	s.now = s.now.Add(s.pace)
}

func (s *session) request(history []toolloop.Item) toolloop.Report {
	s.t.Helper()
	ev := s.shared
	ev.Items = history
	return s.step(ev)
}

func (s *session) step(ev toolloop.Evidence) toolloop.Report {
	s.t.Helper()
	state, report := toolloop.Step(s.state, ev, s.params, s.now)
	s.keep(state)
	return report
}

func (s *session) check(c toolloop.Call) toolloop.Report {
	s.t.Helper()
	state, report := toolloop.Check(s.state, c, s.params, s.now)
	s.keep(state)
	return report
}

func (s *session) result(c toolloop.Call) toolloop.Report {
	s.t.Helper()
	state, report := toolloop.Result(s.state, c, s.params, s.now)
	s.keep(state)
	return report
}

func (s *session) cancel(c toolloop.Call) toolloop.Report {
	s.t.Helper()
	state, report := toolloop.Cancel(s.state, c, s.params, s.now)
	s.keep(state)
	return report
}

func (s *session) explain() toolloop.Report { return toolloop.Explain(s.state, s.params, s.now) }

// fresh is the gravest level of what a request adds.
func fresh(r toolloop.Report) toolloop.Level {
	level := toolloop.Allow
	for _, f := range r.Detections {
		if !f.Standing {
			level = max(level, f.Level)
		}
	}
	return level
}

func rule(r toolloop.Report, want string) (toolloop.Detection, bool) {
	for _, f := range r.Detections {
		if f.Rule == want {
			return f, true
		}
	}
	return toolloop.Detection{}, false
}

// wantLevels makes a check of each call in turn.
func (s *session) wantLevels(calls []toolloop.Call, want ...toolloop.Level) {
	s.t.Helper()
	for i, c := range calls {
		r := s.check(c)
		if got := r.Level(); got != want[min(i, len(want)-1)] {
			s.t.Fatalf("check %d: level %v, want %v: %+v", i+1, got, want[min(i, len(want)-1)], r.Detections)
		}
	}
}

func times(n int, c toolloop.Call) (out []toolloop.Call) {
	for range n {
		out = append(out, c)
	}
	return out
}
