package e2e

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/event"
)

// hooked has every event's body delivered to a webhook.
func hooked(t *testing.T) (bodies <-chan []byte, edit func(*system.Config)) {
	t.Helper()
	got := make(chan []byte, 64)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read event: %v", err)
		}
		got <- body
	}))
	t.Cleanup(hook.Close)
	return got, func(cfg *system.Config) {
		cfg.Notifier.Webhook, cfg.Notifier.AllowCIDR = hook.URL, []string{"127.0.0.0/8"}
	}
}

// excerptsOf reads an event and returns the excerpts of its findings by
// detector.
func excerptsOf(t *testing.T, body []byte) (event.Event, map[string]string) {
	t.Helper()
	e, err := event.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range e.Data.Findings {
		out[f.Detector] = f.Excerpt
	}
	return e, out
}

// overheard listens to every message on a system's NATS, and to the events
// among them. Of an event that is published again, which a stream drops, it hears one.
func overheard(t *testing.T, s *system.System) (all *lines, events <-chan *nats.Msg) {
	t.Helper()
	nc := connect(t, s)
	all, detected := &lines{}, make(chan *nats.Msg, 64)
	heard := map[string]bool{}
	// One subscription for both: when an event is read here, it has been written there.
	_, err := nc.Subscribe(">", func(m *nats.Msg) {
		_, _ = all.Write(append(m.Data, '\n'))
		if id := m.Header.Get(jetstream.MsgIDHeader); strings.HasPrefix(m.Subject, string(event.Detected)+".") && !heard[id] {
			heard[id] = true
			detected <- m
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all, detected
}

// talk is a prompt with two secrets in it.
const talk = "Summarize the quarterly report; the password is hunter2, the key sk-abc123def456."

func TestOnlyPoliciesThatAskPublishExcerpts(t *testing.T) {
	t.Parallel()
	bodies, webhook := hooked(t)
	log := &lines{}
	s, _ := startLogging(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), echo(t), webhook, policies(t, `
bundle_version: 1
policies:
  - {id: told, spec: {include_excerpt: true, prompt: {max_hits: 2}}}
  - {id: quiet, spec: {prompt: {max_hits: 2}}}
  - {id: shadow, spec: {mode: shadow, include_excerpt: true, loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2}}}
`))
	_, detected := overheard(t, s)
	statuses(t, s.URL(), prompt(talk), 4)
	want := map[string]map[string]string{
		"told":   {"prompt": "Summarize the quarterly report; the password is [masked], the key [masked]"},
		"quiet":  {"prompt": ""},
		"shadow": {"request": "Summarize the quarterly report; the password is [masked], the key [masked]"},
	}
	for name, next := range map[string]func() []byte{
		"webhook": func() []byte { return <-bodies },
		"stream":  func() []byte { return (<-detected).Data },
	} {
		got := map[string]map[string]string{}
		for range want {
			body := next()
			e, excerpts := excerptsOf(t, body)
			got[e.Data.Policy] = excerpts
			if hasKey := strings.Contains(string(body), `"excerpt"`); hasKey != (e.Data.Policy != "quiet") {
				t.Errorf("%s: event of policy %s: %s", name, e.Data.Policy, body)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: excerpts by policy (-want +got):\n%s", name, diff)
		}
	}
	for where, text := range map[string]string{"log": log.String(), "metrics": metricsPage(t, s)} {
		if strings.Contains(text, "quarterly") {
			t.Errorf("the prompt is in the %s:\n%s", where, text)
		}
	}
}

// metricsPage is the whole page.
func metricsPage(t *testing.T, s *system.System) string {
	t.Helper()
	a := send(t, s.AdminURL(), call{http.MethodGet, "/metrics", "", nil})
	if a.status != http.StatusOK {
		t.Fatalf("metrics: status %d", a.status)
	}
	return string(a.body)
}

// Without the key no text leaves the gateway, on whatever subject.
func TestWithoutIncludeExcerptNoTextIsSent(t *testing.T) {
	t.Parallel()
	for key, sent := range map[string]bool{"": false, "include_excerpt: false, ": false, "include_excerpt: true, ": true} {
		s := start(t, echo(t), policies(t, "bundle_version: 1\npolicies:\n  - {id: p, spec: {"+key+"prompt: {max_hits: 2}, tool: {}}}\n"))
		all, detected := overheard(t, s)
		statuses(t, s.URL(), prompt(talk), 3)
		<-detected
		statuses(t, s.URL(), chat(toolSession(5, always(`{"path":"quarterly.go"}`), always("quarterly results"))), 1)
		<-detected
		if text := all.String(); strings.Contains(text, "quarterly") != sent || strings.Contains(text, "hunter2") {
			t.Errorf("with %q the messages are:\n%s", key, text)
		}
	}
}

func TestExcerptsOfToolsAndMeanings(t *testing.T) {
	t.Parallel()
	bodies, webhook := hooked(t)
	url := start(t, echo(t), webhook, policies(t, `
bundle_version: 1
policies:
  - {id: p, spec: {include_excerpt: true, tool: {}, semantic: {min_matches: 1, budget_ms: 20000}}}
`)).URL()
	send(t, url, chat(toolSession(3, always(`{"path":"a.go"}`), always("package main"))).with("X-Session-ID", "agent"))
	_, got := excerptsOf(t, <-bodies)
	if diff := cmp.Diff(map[string]string{"tool": `read_file {"path":"a.go"} ⇒ package main`}, got); diff != "" {
		t.Errorf("of an agent's tool (-want +got):\n%s", diff)
	}
	send(t, url, prompt(wordings[0]).with("X-Session-ID", "writer"))
	send(t, url, prompt(wordings[1]).with("X-Session-ID", "writer"))
	_, got = excerptsOf(t, <-bodies)
	if diff := cmp.Diff(map[string]string{"semantic": wordings[1]}, got); diff != "" {
		t.Errorf("of the same in other words (-want +got):\n%s", diff)
	}
	ask := runs(t, url, "runner")
	for range 3 {
		ask(client.ToolCall{Tool: "bash", Arguments: asJSON(`{"cmd":"deploy --token t0psecret"}`)})
	}
	_, got = excerptsOf(t, <-bodies)
	if diff := cmp.Diff(map[string]string{"tool": `bash {"cmd":"deploy --token [masked]"}`}, got); diff != "" {
		t.Errorf("of a tool runner (-want +got):\n%s", diff)
	}
}

func TestExcerptOfALongTextIsItsEnd(t *testing.T) {
	t.Parallel()
	bodies, webhook := hooked(t)
	url := start(t, echo(t), webhook, policies(t, "bundle_version: 1\npolicies:\n  - {id: p, spec: {include_excerpt: true, prompt: {max_hits: 2}}}\n")).URL()
	question, err := json.Marshal(strings.Repeat("Überall Kontext. ", 5000) + "Was folgt daraus?")
	if err != nil {
		t.Fatal(err)
	}
	statuses(t, url, chat(`{"model":"m","messages":[{"role":"user","content":`+string(question)+`}]}`), 3)
	_, got := excerptsOf(t, <-bodies)
	if e := got["prompt"]; len([]rune(e)) != event.MaxExcerpt || !strings.HasPrefix(e, "…") || !strings.HasSuffix(e, "Kontext. Was folgt daraus?") {
		t.Errorf("excerpt %q", e)
	}
}

// An excerpt reaches chats, alerts and mails where the policy has it, and only there.
func TestMessagesQuoteWhatPoliciesAllow(t *testing.T) {
	t.Parallel()
	slack, discord := newInbox(t), newInbox(t)
	_, edit := notify(t, `
allow_cidr: [127.0.0.0/8]
endpoints:
  - {name: slack, slack: {url: {file: DIR/slack}}}
  - {name: discord, discord: {url: {file: DIR/discord}}}
`, map[string]string{"slack": slack.url, "discord": discord.url})
	s := start(t, echo(t), edit, policies(t, `
bundle_version: 1
policies:
  - {id: told, spec: {include_excerpt: true, prompt: {max_hits: 2}}}
  - {id: quiet, spec: {prompt: {max_hits: 2}}}
`))
	statuses(t, s.URL(), prompt(talk), 4)
	for name, in := range map[string]inbox{"Slack": slack, "Discord": discord} {
		for range 2 {
			body := in.next(t)
			quoted := strings.Contains(body, "within 60 seconds: “Summarize the quarterly report; the password is ")
			if quoted != strings.Contains(body, "told") || strings.Contains(body, "hunter2") {
				t.Errorf("%s: %s", name, body)
			}
		}
	}
}
