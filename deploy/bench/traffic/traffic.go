// Package traffic provides the requests that benchmarks send: sessions of agents, turn by
// turn, as Chat Completions bodies, read from files or generated.
//
// A session can be replayed many times. Each run puts a mark of its own into texts and
// arguments, so that runs share no more than the system prompt and the tools, as different
// sessions do.
package traffic

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
)

// Session is a session of an agent: its requests in order.
type Session []Turn

// Turn is a request's body, with the offsets at which the mark of a run belongs.
type Turn struct {
	body  []byte
	marks []int
}

// mark is the placeholder for a run's mark, which is as long.
const mark = "qzmarkqz"

// Size is the length of the body in bytes.
func (t Turn) Size() int { return len(t.body) }

// Append appends the body with the mark of a run to dst.
func (t Turn) Append(dst []byte, run uint32) []byte {
	start := len(dst)
	dst = append(dst, t.body...)
	text := fmt.Appendf(nil, "%08x", run)
	for _, at := range t.marks {
		copy(dst[start+at:], text)
	}
	return dst
}

// newTurn returns a request with the given messages. Like most clients, it does not escape HTML.
func newTurn(model string, messages []message, tools []object) (Turn, error) {
	body, err := json.Marshal(struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Tools    []object  `json:"tools,omitempty"`
	}{model, messages, tools}, json.Deterministic(true))
	if err != nil {
		return Turn{}, fmt.Errorf("encode request: %w", err)
	}
	t := Turn{body: body}
	for at := range t.body {
		if bytes.HasPrefix(t.body[at:], []byte(mark)) {
			t.marks = append(t.marks, at)
		}
	}
	return t, nil
}

// newSession returns the session with a request before each message of the assistant from
// messages[from] on. It ends before the first request of more than limit bytes.
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
			return nil, err
		}
		if turn.Size() > limit {
			break
		}
		s = append(s, turn)
	}
	return s, nil
}

// Shape says how many requests sessions have, and how large they are.
func Shape(all []Session) string {
	requests, mean, largest := 0, 0, 0
	for _, session := range all {
		for _, t := range session {
			requests, mean, largest = requests+1, mean+t.Size(), max(largest, t.Size())
		}
	}
	mean /= max(requests, 1)
	return fmt.Sprintf("%d sessions, %d requests of %.1f KB on average, at most %.0f KB", len(all), requests, float64(mean)/1000, float64(largest)/1000)
}
