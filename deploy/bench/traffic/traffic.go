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

// newTurn returns the request with the given messages. Like most clients, it escapes no HTML.
func newTurn(model string, messages []message, tools []object) (Turn, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Tools    []object  `json:"tools,omitempty"`
	}{model, messages, tools})
	if err != nil {
		return Turn{}, fmt.Errorf("encode request: %w", err)
	}
	t := Turn{body: bytes.TrimRight(body.Bytes(), "\n")}
	for at := range t.body {
		if bytes.HasPrefix(t.body[at:], []byte(mark)) {
			t.marks = append(t.marks, at)
		}
	}
	return t, nil
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

// Shape says how many requests sessions have, and how large they are.
func Shape(all []Session) string {
	requests, mean, largest := 0, 0, 0
	for _, session := range all {
		for _, t := range session.Turns {
			requests, mean, largest = requests+1, mean+t.Size(), max(largest, t.Size())
		}
	}
	mean /= max(requests, 1)
	return fmt.Sprintf("%d sessions, %d requests of %.1f KB on average, at most %.0f KB", len(all), requests, float64(mean)/1000, float64(largest)/1000)
}
