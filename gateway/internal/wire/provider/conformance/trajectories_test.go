package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// trajectories are recorded sessions of real agents, as files of OpenAI messages:
// those of the folder that the environment names, or of one beside the repository.
func trajectories(t *testing.T) map[string]Conversation {
	t.Helper()
	dir := os.Getenv("UNLOOP_TEST_TRAJECTORIES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "..", "..", "shared", "trajectories")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Skipf("no recorded sessions in %s; UNLOOP_TEST_TRAJECTORIES names another folder", dir)
	}
	out := map[string]Conversation{}
	for _, file := range files {
		out[filepath.Base(file)] = recorded(t, file)
	}
	return out
}

func recorded(t *testing.T, file string) Conversation {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return conversationOf(t, file, data)
}

// conversationOf returns the conversation of an object with OpenAI messages.
func conversationOf(t *testing.T, file string, data []byte) (c Conversation) {
	t.Helper()
	var session struct {
		Messages []struct {
			Role      string `json:"role"`
			Content   string `json:"content"`
			CallID    string `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(data, &session); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	c.Model = "m"
	tools := map[string]string{}
	for _, m := range session.Messages {
		turn := Turn{}
		switch m.Role {
		case "system":
			c.System = m.Content
			continue
		case "user":
			turn.Human = m.Content
		case "tool":
			turn.Results = []Result{{ID: m.CallID, Tool: tools[m.CallID], Text: m.Content}}
		default:
			turn.Said = m.Content
			for _, call := range m.ToolCalls {
				if tools[call.ID] = call.Function.Name; !json.Valid([]byte(call.Function.Arguments)) {
					call.Function.Arguments = string(marshal(call.Function.Arguments))
				}
				turn.Calls = append(turn.Calls, Call{ID: call.ID, Tool: call.Function.Name, Args: call.Function.Arguments})
			}
		}
		c.Turns = append(c.Turns, turn)
	}
	return c
}

// plainItem is what of an item is the same in all formats: not how calls are told
// apart, nor failures, which only some mark.
func plainItems(items []provider.Item) []provider.Item {
	for i := range items {
		for k := range items[i].Calls {
			c := &items[i].Calls[k]
			items[i].Calls[k] = provider.ToolCall{Tool: c.Tool, Key: c.Key, Result: c.Result, Poll: c.Poll}
		}
	}
	return items
}

func TestRecordedSessionsHaveTheSameRoundsInEveryFormat(t *testing.T) {
	t.Parallel()
	for name, c := range trajectories(t) {
		rounds := 0
		for _, turn := range c.Turns {
			if turn.Calls != nil {
				rounds++
			}
		}
		var first []provider.Item
		for _, p := range all {
			prompt, err := p.Parse(Formats[p.Name()](c), provider.Options{Tail: 3, Items: 1000})
			if err != nil {
				t.Fatal(err)
			}
			items, _ := prompt.Transcript.History(provider.Rules{})
			found := 0
			for _, it := range items {
				if len(it.Calls) > 0 {
					found++
				}
				for _, call := range it.Calls {
					if call.Result.IsZero() && rounds > 0 {
						t.Errorf("%s, %s: a call of %s has no result", name, p.Name(), call.Tool)
					}
				}
			}
			if found != rounds && rounds > 0 { // else the agent acts in text

				t.Errorf("%s, %s: %d rounds, want %d", name, p.Name(), found, rounds)
			}
			if items = plainItems(items); first == nil {
				first = items
			}
			if diff := cmp.Diff(first, items); diff != "" {
				t.Errorf("%s, %s: %s", name, p.Name(), diff)
			}
		}
	}
}

func TestRecordedSessionsNeedNoRepair(t *testing.T) {
	t.Parallel()
	for name, c := range trajectories(t) {
		for _, p := range all {
			body := Formats[p.Name()](c)
			got, report, err := p.Repair(body)
			if err != nil || report.Changed() || &got[0] != &body[0] {
				t.Errorf("%s, %s: %v, %v", name, p.Name(), report, err)
			}
		}
	}
}
