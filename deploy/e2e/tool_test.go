package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// toolSession is the body of a request whose agent made n calls of one tool.
func toolSession(n int, args func(i int) string, result func(i int) string) string {
	messages := []any{map[string]any{"role": "user", "content": "Find the bug."}}
	for i := range n {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": "read_file", "arguments": args(i)},
			}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": result(i)})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		panic(err) // strings and maps always encode
	}
	return string(body)
}

func always(s string) func(int) string { return func(int) string { return s } }
func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

func TestRepeatedToolCallIsHintedThenBlocked(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way func(*system.Config)) {
		upstream := serve(t, greeting)
		url := start(t, upstream.url, way).URL()
		// The same arguments, spelled differently each time.
		spelled := func(i int) string {
			return []string{`{"path":"a.go","line":1}`, `{ "line": 1.0, "path": "a.go" }`, "{\"line\":1e0,\n\"path\":\"a.go\"}"}[i%3]
		}
		var got []string
		var last answered
		for n := range 7 {
			last = send(t, url, chat(toolSession(n, spelled, always("package main"))))
			got = append(got, fmt.Sprint(last.status, " ", last.header.Get("X-Loop-Action")))
		}
		want := []string{"200 ", "200 ", "200 ", "200 hint", "200 hint", "429 reject", "429 reject"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("by rounds in the history (-want +got):\n%s", diff)
		}
		r := last.refusal(t)
		if r.Detail.Detector != "tool" || !strings.Contains(r.Error.Message, "read_file") || last.header.Get("Retry-After") != "" {
			t.Errorf("detector %s, message %q, Retry-After %q; want the tool's name, and nothing to wait for", r.Detail.Detector, r.Error.Message, last.header.Get("Retry-After"))
		}
		requests := upstream.Requests()
		hinted := requests[3].Chat.Messages
		if hinted[0].Role != "system" || !strings.Contains(hinted[0].Text(), "read_file") || len(hinted) != len(requests[2].Chat.Messages)+3 {
			t.Errorf("the upstream got %+v; want a system message with the tool's name before the rest", hinted)
		}
		if strings.Contains(hinted[0].Text(), "You seem to be repeating") {
			t.Errorf("the hint says it twice: %q", hinted[0].Text())
		}
	})
}

func TestProgressAndPagingAreNoLoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for name, session := range map[string]func(n int) string{
		"new results":   func(n int) string { return toolSession(n, always(`{"id":1}`), numbered("state %d")) },
		"new arguments": func(n int) string { return toolSession(n, numbered(`{"page":%d}`), always("a page")) },
	} {
		for n := range 25 {
			a := send(t, url, chat(session(n)).with("Authorization", "Bearer "+name))
			if a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" {
				t.Fatalf("%s: %d rounds: status %d, action %q", name, n, a.status, a.header.Get("X-Loop-Action"))
			}
		}
	}
}

func TestHumanMessageStartsAfresh(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for n := range 6 {
		send(t, url, chat(toolSession(n, always("{}"), always("same"))))
	}
	blocked := toolSession(5, always("{}"), always("same"))
	if a := send(t, url, chat(blocked)); a.status != http.StatusTooManyRequests {
		t.Fatalf("status %d, want the agent blocked", a.status)
	}
	human := strings.TrimSuffix(strings.TrimSpace(blocked), `],"model":"m"}`)
	if human == blocked {
		human = strings.Replace(blocked, `"model":"m",`, "", 1)
		human = strings.TrimSuffix(human, "]}")
	}
	human += `,{"role":"user","content":"Look elsewhere."}],"model":"m"}`
	if a := send(t, url, chat(human)); a.status != http.StatusOK {
		t.Errorf("after a human message: status %d, %s", a.status, a.body)
	}
}

// Any round of a real session, repeated, is hinted at its third occurrence and
// blocked at its fifth.
func TestRoundOfARealSessionRepeatedIsALoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for name, messages := range trajectories(t) {
		rounds := toolRounds(messages)
		if len(rounds) == 0 {
			continue
		}
		for seed := range uint64(3) {
			at := rounds[rand.New(rand.NewPCG(seed, 7)).IntN(len(rounds))]
			t.Run(fmt.Sprintf("%s/%d", name, at[0]), func(t *testing.T) {
				t.Parallel()
				history := append([]json.RawMessage(nil), messages[:at[1]]...)
				var got []int
				for occurrence := 1; occurrence <= 5; occurrence++ {
					if occurrence > 1 {
						for _, m := range messages[at[0]:at[1]] {
							history = append(history, json.RawMessage(strings.ReplaceAll(string(m), `"call_`, fmt.Sprintf(`"call_%d_`, occurrence))))
						}
					}
					body, err := json.Marshal(map[string]any{"model": "m", "messages": history})
					if err != nil {
						t.Fatal(err)
					}
					a := send(t, url, chat(string(body)).with("Authorization", fmt.Sprintf("Bearer %s %d", name, seed)))
					got = append(got, a.status)
					if hint := a.header.Get("X-Loop-Action") == "hint"; hint != (occurrence == 3 || occurrence == 4) {
						t.Errorf("occurrence %d: action %q", occurrence, a.header.Get("X-Loop-Action"))
					}
				}
				if diff := cmp.Diff(ok(4, http.StatusTooManyRequests), got); diff != "" {
					t.Errorf("by occurrence (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// toolRounds are the rounds of a session as ranges of messages: an assistant's
// calls and their results.
func toolRounds(messages []json.RawMessage) [][2]int {
	var all [][2]int
	for i := range messages {
		var m struct {
			Calls []json.RawMessage `json:"tool_calls"`
		}
		if json.Unmarshal(messages[i], &m) != nil || len(m.Calls) == 0 {
			continue
		}
		end := i + 1
		for end < len(messages) && roleOf(messages[end]) == "tool" {
			end++
		}
		if end > i+1 {
			all = append(all, [2]int{i, end})
		}
	}
	return all
}

func TestPolicyEscalatesToolLoops(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - id: tools
    spec:
      tool: {escalation: [{at: 2, action: warn}, {at: 3, action: hint}, {at: 4, action: reject}]}
`)).URL()
	var got []string
	for n := range 6 {
		a := send(t, url, chat(toolSession(n, always("{}"), always("same"))))
		got = append(got, a.header.Get("X-Loop-Action"))
	}
	if diff := cmp.Diff([]string{"", "", "warn", "hint", "reject", "reject"}, got); diff != "" {
		t.Errorf("by rounds in the history (-want +got):\n%s", diff)
	}
}
