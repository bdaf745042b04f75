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
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/scan/agents"
	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/notifier"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/policy"
)

// chatMessage is a message of a labelled session.
type chatMessage struct {
	Role    string
	Content string
	Calls   []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	CallID string `json:"tool_call_id"`
}

// asClaude writes a session as Claude Code keeps it, with 5 ms from one message to the next.
func asClaude(messages []chatMessage) string {
	var out strings.Builder
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for i, m := range messages {
		kind, blocks := "user", []block{{Type: "text", Text: m.Content}}
		switch m.Role {
		case "assistant":
			kind = m.Role
			if m.Content == "" {
				blocks = nil
			}
			for _, c := range m.Calls {
				blocks = append(blocks, block{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: object(json.RawMessage(c.Function.Arguments))})
			}
		case "tool":
			blocks = []block{{Type: "tool_result", Result: m.CallID, Content: m.Content}}
		}
		text, _ := json.Marshal(blocks) // strings can be encoded
		fmt.Fprintf(&out, `{"parentUuid":null,"type":%q,"sessionId":"s","timestamp":%q,"message":{"role":%q,"id":"m%d","model":"m","content":%s}}`+"\n",
			kind, at.Add(time.Duration(i)*5*time.Millisecond).Format(time.RFC3339Nano), kind, i, text)
	}
	return out.String()
}

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
		for range 15 {
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

// sent sends the requests of a session through a gateway until one is stopped.
func sent(t *testing.T, url, key string, f File) (d Did) {
	t.Helper()
	n := 0
	for q, err := range open(f) {
		if err != nil {
			t.Fatal(err)
		}
		if q.Answer != nil {
			continue
		}
		n++
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+q.Path, bytes.NewReader(q.Body))
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
			t.Fatalf("request %d was not checked: %s", n, res.Header.Get("X-Loop-Degraded"))
		}
		if action != "" {
			d.Found = earlier(d.Found, n)
		}
		if action == "hint" {
			d.Hinted = earlier(d.Hinted, n)
		}
		if res.StatusCode == http.StatusTooManyRequests {
			d.Stopped = n
			return d
		}
	}
	return d
}

// A session that is read from a file is hinted and stopped in the same requests as the same
// session that is sent through a gateway.
func TestScanDecidesAsAGatewayDoes(t *testing.T) {
	t.Parallel()
	bundle, err := policy.Default(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	bundle.Policies[0].Spec.Semantic.BudgetMS = 10_000 // on a busy machine, too
	text, err := bundle.Commented()
	if err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.Policies = filepath.Join(t.TempDir(), "default.yaml")
	writeFile(t, cfg.Policies, string(text))
	s := liveSystem(t, cfg.Policies)
	found := 0
	for i, messages := range labelled(t) {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.jsonl", i))
		writeFile(t, path, asClaude(messages))
		f := File{Path: path, Agent: agents.All[0]}
		scanned := scanFile(t.Context(), f, cfg)
		if scanned.err != nil || scanned.faults > 0 {
			t.Fatalf("session %d: %v, %d faults", i, scanned.err, scanned.faults)
		}
		var want Did
		for _, d := range scanned.marks {
			want = Did{earlier(want.Found, d.Found), earlier(want.Hinted, d.Hinted), earlier(want.Stopped, d.Stopped)}
		}
		if want.Found > 0 {
			found++
		}
		if want.Stopped > 0 && want.Hinted >= want.Stopped {
			want.Hinted = 0 // an answer says what is strongest, and nothing is sent after a stop
		}
		if got := sent(t, s.URL(), fmt.Sprint("sk-", i), f); got != want {
			t.Errorf("session %d: the gateway %v, the scan %v", i, [3]int{got.Found, got.Hinted, got.Stopped}, [3]int{want.Found, want.Hinted, want.Stopped})
		}
	}
	if found < 5 {
		t.Errorf("only %d sessions have a loop", found)
	}
}
