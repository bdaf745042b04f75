package scan

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/deploy/scan/agents"
	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/policy"
)

// chatMessage is a message of a labelled session.
type chatMessage struct {
	Role    string
	Content string
	Calls   []chatCall `json:"tool_calls"`
	CallID  string     `json:"tool_call_id"`
}

type chatCall struct {
	ID       string
	Function struct{ Name, Arguments string }
}

// asClaude writes a session as Claude Code keeps it, with 5 ms from one message to the next.
func asClaude(messages []chatMessage) string {
	var out strings.Builder
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for i, m := range messages {
		kind, blocks := "user", []said{{Type: "text", Text: m.Content}}
		switch m.Role {
		case "assistant":
			kind = m.Role
			if m.Content == "" {
				blocks = nil
			}
			for _, c := range m.Calls {
				input := jsontext.Value(c.Function.Arguments)
				if !input.IsValid() {
					input = nil
				}
				blocks = append(blocks, said{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: object(input)})
			}
		case "tool":
			blocks = []said{{Type: "tool_result", Result: m.CallID, Content: m.Content}}
		}
		text, _ := json.Marshal(blocks) // strings can be encoded
		fmt.Fprintf(&out, `{"parentUuid":null,"type":%q,"sessionId":"s","timestamp":%q,"message":{"role":%q,"id":"m%d","model":"m","content":%s}}`+"\n",
			kind, at.Add(time.Duration(i)*5*time.Millisecond).Format(time.RFC3339Nano), kind, i, text)
	}
	return out.String()
}

// least is the number of recorded sessions of each set beside the repository.
const least = 15

// labelled returns our own labelled sessions and, where they are beside the repository, recorded ones.
func labelled(t *testing.T) (all [][]chatMessage) {
	t.Helper()
	for _, name := range []string{"../detection/testdata/honest.jsonl", "../detection/testdata/stuck.jsonl", "../../../shared/sessions2/stuck.jsonl", "../../../shared/sessions2/honest.jsonl"} {
		f, err := os.Open(name)
		if os.IsNotExist(err) && strings.Contains(name, "shared") {
			t.Logf("%s is not there", name)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(f)
		for n := 0; n < least || !strings.Contains(name, "shared"); n++ {
			line, err := lines.ReadBytes('\n')
			var s struct{ Messages []chatMessage }
			if len(line) > 0 && json.Unmarshal(line, &s) == nil {
				all = append(all, s.Messages)
			}
			if err != nil {
				break
			}
		}
		_ = f.Close()
	}
	return all
}

// liveSystem starts all of Unloop in front of a model that always says the same.
func liveSystem(t *testing.T, policies string) *system.System {
	t.Helper()
	model := httptest.NewServer(scripted.New(func(scripted.Request) scripted.Reply { return scripted.Text("ok") }))
	t.Cleanup(model.Close)
	cfg := system.Config{
		Admin: "127.0.0.1:0", Replicas: 1, OverNATS: true, Embedded: natskit.EmbeddedConfig{Listen: "127.0.0.1:0", DataDir: "memory"},
		Gateway: gateway.DefaultConfig(), Notifier: notifier.DefaultConfig(), Embedworker: embedworker.DefaultConfig(),
	}
	cfg.Embedworker.Embedder, cfg.Gateway.Policies = "lexical", policies
	cfg.Gateway.Listen, cfg.Gateway.Upstream = "127.0.0.1:0", map[string]string{"anthropic": model.URL}
	cfg.Gateway.CheckTimeout, cfg.Gateway.StartGrace, cfg.Gateway.Reject = 5*time.Second, 20*time.Second, "429"
	s, err := system.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	if err := s.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// said is a block of a message's content.
type said struct {
	Type    string         `json:"type"`
	Text    string         `json:"text,omitzero"`
	ID      string         `json:"id,omitzero"`
	Name    string         `json:"name,omitzero"`
	Input   jsontext.Value `json:"input,omitzero"`
	Result  string         `json:"tool_use_id,omitzero"`
	Content string         `json:"content,omitzero"`
}

// turn is a message with its blocks.
type turn struct {
	Role    string
	Content []said
}

// whole returns the requests of a session with all of their messages, and their texts.
func whole(t *testing.T, f File) (turns [][]turn, bodies [][]byte) {
	t.Helper()
	var said []turn
	var raw [][]byte
	for q, err := range open(f) {
		if err != nil {
			t.Fatal(err)
		}
		if q.Answer != nil {
			continue
		}
		for _, m := range q.Added {
			var read turn
			if err := json.Unmarshal(m, &read); err != nil {
				t.Fatal(err)
			}
			said, raw = append(said, read), append(raw, m)
		}
		body, _ := q.Conversation.Body(q.Model, raw, true)
		turns, bodies = append(turns, slices.Clone(said)), append(bodies, body)
	}
	return turns, bodies
}

// formats write the messages of a request as each API has them.
var formats = map[string]struct {
	path string
	body func(turns []turn) any
}{
	"openai-chat":      {"/v1/chat/completions", func(turns []turn) any { return obj{"model": "m", "messages": flat(turns, chatOf)} }},
	"openai-responses": {"/v1/responses", func(turns []turn) any { return obj{"model": "m", "input": flat(turns, responsesOf)} }},
	"anthropic-messages": {"/v1/messages", func(turns []turn) any {
		return obj{"model": "m", "max_tokens": 1, "messages": flat(turns, messagesOf)}
	}},
	"gemini": {"/v1beta/models/m:generateContent", func(turns []turn) any { return obj{"contents": geminiOf(turns)} }},
}

type obj = map[string]any

func flat(turns []turn, of func(turn) []any) (out []any) {
	for _, m := range turns {
		out = append(out, of(m)...)
	}
	return out
}

func messagesOf(m turn) []any { return []any{obj{"role": m.Role, "content": m.Content}} }

func chatOf(m turn) (out []any) {
	var calls []any
	content := any(nil)
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			content = b.Text
		case "tool_use":
			calls = append(calls, obj{"id": b.ID, "type": "function", "function": obj{"name": b.Name, "arguments": string(b.Input)}})
		case "tool_result":
			out = append(out, obj{"role": "tool", "tool_call_id": b.Result, "content": b.Content})
		}
	}
	switch {
	case calls != nil:
		return append(out, obj{"role": m.Role, "content": content, "tool_calls": calls})
	case content != nil:
		return append(out, obj{"role": m.Role, "content": content})
	}
	return out
}

func responsesOf(m turn) (out []any) {
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			out = append(out, obj{"type": "message", "role": m.Role, "content": b.Text})
		case "tool_use":
			out = append(out, obj{"type": "function_call", "call_id": b.ID, "name": b.Name, "arguments": string(b.Input)})
		case "tool_result":
			out = append(out, obj{"type": "function_call_output", "call_id": b.Result, "output": b.Content})
		}
	}
	return out
}

func geminiOf(turns []turn) (out []any) {
	names := map[string]string{}
	for _, m := range turns {
		var parts []any
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				parts = append(parts, obj{"text": b.Text})
			case "tool_use":
				names[b.ID] = b.Name
				parts = append(parts, obj{"functionCall": obj{"id": b.ID, "name": b.Name, "args": b.Input}})
			case "tool_result":
				parts = append(parts, obj{"functionResponse": obj{"id": b.Result, "name": names[b.Result], "response": obj{"output": b.Content}}})
			}
		}
		role := m.Role
		if role == "assistant" {
			role = "model"
		}
		out = append(out, obj{"role": role, "parts": parts})
	}
	return out
}

// asked asks a gateway about each request of a session in a format, and returns what its
// detectors find.
func asked(t *testing.T, url, key, format string, turns [][]turn) (found [][]string) {
	t.Helper()
	c, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	for n, m := range turns {
		body, err := json.Marshal(formats[format].body(m))
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Check(t.Context(), client.Request{
			Path: formats[format].path, Body: body, Session: key, Header: http.Header{"Authorization": {"Bearer " + key}, "X-Api-Key": {key}, "X-Goog-Api-Key": {key}},
		})
		if d == nil || d.Degraded != "" {
			t.Fatalf("request %d: %v, %+v", n+1, err, d)
		}
		var all []string
		for _, f := range d.Findings {
			all = append(all, fmt.Sprintf("%s by %s %s of %s, %d times", f.Action, f.Detector, f.Rule, f.Tool, f.HitCount))
		}
		slices.Sort(all)
		found = append(found, all)
	}
	return found
}

// decided returns what a scan finds about each request of a session.
func decided(t *testing.T, f File, cfg Config) (found [][]string) {
	t.Helper()
	var all []string
	run, err := replay.New(t.Context(), replay.Config{Policies: cfg.Policies, Pace: cfg.Pace, Embedworker: cfg.Embedworker, Decided: func(d *checkpb.Decision) {
		all = nil
		for _, f := range d.GetFindings() {
			all = append(all, fmt.Sprintf("%s by %s %s of %s, %d times", f.GetAction().Label(), f.GetDetector(), f.GetRule(), f.GetTool(), f.GetHitCount()))
		}
		slices.Sort(all)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	}()
	for q, err := range logs.InOrder(open(f)) {
		if err == nil {
			err = run.Request(t.Context(), f.Path, &q)
		}
		if err != nil {
			t.Fatal(err)
		}
		if q.Answer == nil {
			found = append(found, all)
		}
	}
	return found
}

// sent sends the requests of a session through a gateway until one is stopped.
func sent(t *testing.T, url, key string, bodies [][]byte) (d Did) {
	t.Helper()
	for i, body := range bodies {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
		req.Header.Set("X-Session-ID", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		action := res.Header.Get("X-Loop-Action")
		if res.Header.Get("X-Loop-Degraded") != "" {
			t.Fatalf("request %d was not checked: %s", i+1, res.Header.Get("X-Loop-Degraded"))
		}
		if action != "" {
			d.Found = earlier(d.Found, i+1)
		}
		if action == "hint" {
			d.Hinted = earlier(d.Hinted, i+1)
		}
		if res.StatusCode == http.StatusTooManyRequests {
			d.Stopped = i + 1
			return d
		}
	}
	return d
}

// patient returns a configuration and a gateway by the default policy in a mode. Comparisons
// of texts may take long on a busy machine.
func patient(t *testing.T, mode string) (Config, *system.System) {
	t.Helper()
	bundle, err := policy.Default(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	bundle.Policies[0].Spec.Semantic.BudgetMS, bundle.Policies[0].Spec.Mode = 10_000, mode
	text, err := bundle.Commented()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.Policies = filepath.Join(t.TempDir(), "default.yaml")
	writeFile(t, cfg.Policies, string(text))
	return cfg, liveSystem(t, cfg.Policies)
}

// long is a session in which each of many calls brings something new, until one is repeated.
func long() []chatMessage {
	out := []chatMessage{{Role: "user", Content: "Make the tests pass."}}
	for i := range 80 {
		id, n := fmt.Sprint("c", i), min(i, 70)
		call := chatMessage{Role: "assistant", Calls: make([]chatCall, 1)}
		call.Calls[0].ID, call.Calls[0].Function.Name, call.Calls[0].Function.Arguments = id, "read", fmt.Sprintf(`{"path":"/shop/%d.go"}`, n)
		out = append(out, call, chatMessage{Role: "tool", CallID: id, Content: strings.Repeat(fmt.Sprintf("func of%d() { ", n), n%7+1)})
	}
	return append(out, chatMessage{Role: "assistant", Content: "I give up."})
}

// recorded are sessions as Claude Code keeps them: labelled ones, and one that is longer than
// any detector remembers and ends in a loop.
func recorded(t *testing.T) (files []File) {
	t.Helper()
	folder := t.TempDir()
	for i, messages := range append(labelled(t), long()) {
		path := filepath.Join(folder, fmt.Sprintf("%d.jsonl", i))
		writeFile(t, path, asClaude(messages))
		files = append(files, File{Path: path, Agent: agents.All[0]})
	}
	return files
}

// A session that is read from a file is hinted and stopped in the same requests as the same
// session that is sent through a gateway. With a policy that stops nothing, each request has
// the same findings in each format.
func TestScanDecidesAsAGatewayDoes(t *testing.T) {
	t.Parallel()
	cfg, s := patient(t, "enforce")
	shadow, watched := patient(t, "shadow")
	base, err := replay.New(t.Context(), replay.Config{Policies: cfg.Policies, Pace: cfg.Pace, Embedworker: cfg.Embedworker})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = base.Close() }() // nothing is kept
	scanned := &scanner{Config: cfg, base: base}
	found := 0
	for i, f := range recorded(t) {
		r := scanned.file(t.Context(), f, func(int64) {}, nil)
		if r.faults > 0 {
			t.Fatalf("session %d: %d faults", i, r.faults)
		}
		var want Did
		for _, d := range r.marks {
			want = Did{earlier(want.Found, d.Found), earlier(want.Hinted, d.Hinted), earlier(want.Stopped, d.Stopped)}
		}
		if want.Found > 0 {
			found++
		}
		if want.Stopped > 0 && want.Hinted >= want.Stopped {
			want.Hinted = 0 // an answer says what is strongest, and nothing is sent after a stop
		}
		turns, bodies := whole(t, f)
		if got := sent(t, s.URL(), fmt.Sprint("sk-", i), bodies); got != want {
			t.Errorf("session %d: the gateway %v, the scan %v", i, [3]int{got.Found, got.Hinted, got.Stopped}, [3]int{want.Found, want.Hinted, want.Stopped})
		}
		findings := decided(t, f, shadow)
		for format := range formats {
			if diff := cmp.Diff(findings, asked(t, watched.URL(), fmt.Sprint("sk-", format, i), format, turns)); diff != "" {
				t.Errorf("session %d in %s (-scan +gateway):\n%s", i, format, diff)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d sessions have a loop", found)
	}
}
