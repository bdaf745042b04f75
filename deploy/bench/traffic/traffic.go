// Package traffic has the requests that benchmarks send: sessions of agents, turn by
// turn, as Chat Completions bodies. They are read from files or generated.
//
// A session can be replayed many times. In each run its texts and arguments bear the
// run's mark, so that no run has bytes in common with another one beyond the system
// prompt and the tools, as with sessions that are new.
//
// It does not know who sends the requests.
package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Session is a session of an agent: its requests in order.
type Session struct {
	Turns []Turn
}

// Turn is a request's body, with places for the mark of a run.
type Turn struct {
	body  []byte
	marks []int
}

// mark is the place of a run's mark in a body. It has the length of a mark.
const mark = "qzmarkqz"

// Size is the length of the body in bytes.
func (t Turn) Size() int { return len(t.body) }

// Append appends the body to dst as it is in a run.
func (t Turn) Append(dst []byte, run uint32) []byte {
	start := len(dst)
	dst = append(dst, t.body...)
	text := fmt.Appendf(nil, "%08x", run)
	for _, at := range t.marks {
		copy(dst[start+at:], text)
	}
	return dst
}

// newTurn returns the request with the given messages.
func newTurn(model string, messages []message, tools []tool) (Turn, error) {
	body, err := encode(struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Tools    []tool    `json:"tools,omitempty"`
	}{model, messages, tools})
	if err != nil {
		return Turn{}, fmt.Errorf("encode request: %w", err)
	}
	t := Turn{body: body}
	for at := 0; ; at += len(mark) {
		next := bytes.Index(body[at:], []byte(mark))
		if next < 0 {
			return t, nil
		}
		at += next
		t.marks = append(t.marks, at)
	}
}

// newSession returns the session whose requests are the messages before each message of
// the assistant, from a message on. It ends before the first request of more than limit bytes.
func newSession(model string, messages []message, from, limit int) (Session, error) {
	tools := toolsOf(messages)
	for i := range messages {
		messages[i].addMark()
	}
	var s Session
	for i := range messages {
		if messages[i].Role != "assistant" || i == 0 || i < from {
			continue
		}
		turn, err := newTurn(model, messages[:i], tools)
		if err != nil {
			return Session{}, err
		}
		if turn.Size() > limit {
			break
		}
		s.Turns = append(s.Turns, turn)
	}
	return s, nil
}

// encode is json.Marshal without escaped HTML, as most clients send it.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// Shape are figures of sessions.
type Shape struct {
	Sessions, Requests int
	// Mean and Largest are sizes of bodies in bytes.
	Mean, Largest int
}

// ShapeOf returns the figures of sessions.
func ShapeOf(all []Session) Shape {
	s := Shape{Sessions: len(all)}
	for _, session := range all {
		for _, t := range session.Turns {
			s.Requests++
			s.Mean += t.Size()
			s.Largest = max(s.Largest, t.Size())
		}
	}
	s.Mean /= max(s.Requests, 1)
	return s
}

func (s Shape) String() string {
	return fmt.Sprintf("%d sessions, %d requests of %.1f KB on average, at most %.0f KB",
		s.Sessions, s.Requests, float64(s.Mean)/1000, float64(s.Largest)/1000)
}
