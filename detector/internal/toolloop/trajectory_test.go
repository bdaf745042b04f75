package toolloop_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/unloop/unloop/detector/internal/toolloop"
)

// recorded is a session as OpenAI messages.
type recorded struct {
	Messages []struct {
		Role, Content string
		ToolCalls     []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
}

// history reads the rounds and human messages of a recorded session. Results
// follow their calls in order: in some of these sessions an id is used twice.
func (r *recorded) history() (items []toolloop.Item) {
	messages := r.Messages
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Role == "user":
			items = append(items, human(m.Content))
		case len(m.ToolCalls) > 0:
			var it toolloop.Item
			for k, c := range m.ToolCalls {
				var result []string
				if at := i + 1 + k; at < len(messages) && messages[at].Role == "tool" {
					result = []string{messages[at].Content}
				}
				it.Calls = append(it.Calls, toolCall(c.Function.Name, c.Function.Arguments, c.ID, result...))
			}
			items = append(items, it)
		}
	}
	return items
}

// trajectories are real agent sessions, which lie beside a checkout.
func trajectories(t *testing.T) map[string][]toolloop.Item {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "trajectories")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Skipf("no recorded sessions in %s", dir)
	}
	out := map[string][]toolloop.Item{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r recorded
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[filepath.Base(file)] = r.history()
	}
	return out
}

func hasRounds(history []toolloop.Item) bool {
	for i := range history {
		if len(history[i].Calls) > 0 {
			return true
		}
	}
	return false
}

func TestRealSessionsBringNoFinding(t *testing.T) {
	t.Parallel()
	for name, history := range trajectories(t) {
		for _, s := range []*session{newSession(t), derivedSession(t)} {
			for i := range history {
				if r := s.request(history[:i+1]); len(r.Detections) > 0 {
					t.Errorf("%s, request %d: %+v", name, i, r.Detections)
				}
			}
		}
	}
}

// client is how a client sends its history.
type client struct {
	name     string
	own      bool
	window   int  // rounds that it keeps
	freshIDs bool // whether every call has an id of its own
}

func clients() (out []client) {
	for _, own := range []bool{true, false} {
		for _, window := range []int{1000, 8, 5, 3, 2} {
			for _, freshIDs := range []bool{true, false} {
				out = append(out, client{fmt.Sprintf("own=%v/window=%d/ids=%v", own, window, freshIDs), own, window, freshIDs})
			}
		}
	}
	return append(out, client{"own=true/window=1/ids=true", true, 1, true})
}

func TestARealRoundThatIsRepeatedIsWarnedOfAndBlocked(t *testing.T) {
	t.Parallel()
	sessions := trajectories(t)
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, history := range sessions {
				if !hasRounds(history) {
					continue
				}
				for seed := range uint64(12) {
					random := rand.New(rand.NewPCG(seed, 7))
					c.repeatOne(t, name, history, random)
				}
			}
		})
	}
}

// repeatOne cuts the history behind a random round, lets the agent repeat that
// round, and expects a warning at the third occurrence and a block at the fifth.
func (c *client) repeatOne(t *testing.T, name string, history []toolloop.Item, random *rand.Rand) {
	t.Helper()
	at := random.IntN(len(history))
	for len(history[at].Calls) == 0 {
		at = random.IntN(len(history))
	}
	if !c.freshIDs && c.window < 5 && at == 1 {
		return // nothing but equal requests: see align.go
	}
	s := newSession(t)
	s.shared.Own = c.own
	sent := join(history[:at], repeat(6, history[at]))
	if c.freshIDs {
		for i := range sent {
			sent[i] = renamed(sent[i], fmt.Sprint("call_", i))
		}
	}
	for i := range sent {
		r := s.request(cut(sent[:i+1], c.window))
		want, got := allow, fresh(r)
		switch occurrence := i - at + 1; {
		case occurrence >= 5:
			want, got = block, r.Level()
		case occurrence >= 3:
			want = warn
		}
		if got != want {
			t.Fatalf("%s, round %d, occurrence %d: level %v, want %v: %+v", name, at, i-at+1, fresh(r), want, r)
		}
	}
}

// renamed gives the calls of a round ids of their own.
func renamed(it toolloop.Item, id string) toolloop.Item {
	calls := append([]toolloop.Call(nil), it.Calls...)
	for k := range calls {
		calls[k].ID = hash(fmt.Sprint(id, k))
	}
	it.Calls = calls
	return it
}
