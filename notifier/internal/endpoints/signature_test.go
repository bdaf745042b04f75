package endpoints

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/event"
)

const (
	oldSecret   = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk"
	otherSecret = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90"
)

// rotating sends a message that is signed with two secrets, and returns what arrived.
func rotating(t *testing.T, m *sink.Message) (http.Header, []byte) {
	t.Helper()
	p := httpPeer(t)
	env := environment(map[string]string{"NEW": aSecret, "OLD": oldSecret}, nil)
	all, err := Load([]byte("allow_cidr: [127.0.0.0/8]\nendpoints: [{name: hooks, webhook: {url: 'http://"+p.addr+"', secrets: [{env: NEW}, {env: OLD}]}}]"), nil, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(all) })
	if err := all[0].Sink.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	body := <-p.got
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.header, body
}

func aMessage() *sink.Message {
	m := render.Example()
	m.Time = time.Now()
	return m
}

func TestSignaturesAreVerifiedWithEitherSecretInGo(t *testing.T) {
	t.Parallel()
	header, body := rotating(t, aMessage())
	for secret, ok := range map[string]bool{aSecret: true, oldSecret: true, otherSecret: false} {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(body, header); (err == nil) != ok {
			t.Errorf("verified with %s: %v", secret, err)
		}
	}
	if e, err := event.Parse(body); err != nil || e.ID != header.Get("webhook-id") {
		t.Errorf("the body is no event with the id of the header: %v", err)
	}
}

// verify.js reads {headers, body, secrets} and prints which secrets verify the body.
const verifyScript = `
const {Webhook} = require('standardwebhooks');
const {headers, body, secrets} = JSON.parse(require('fs').readFileSync(0));
for (const secret of secrets) {
  try { new Webhook(secret).verify(body, headers); console.log('verified'); }
  catch (e) { console.log('refused'); }
}`

func TestSignaturesAreVerifiedInNode(t *testing.T) {
	t.Parallel()
	node, modules := os.Getenv("UNLOOP_TEST_NODE"), os.Getenv("UNLOOP_TEST_NODE_MODULES")
	if node == "" || modules == "" {
		t.Skip("no Node: UNLOOP_TEST_NODE and UNLOOP_TEST_NODE_MODULES are not set")
	}
	header, body := rotating(t, aMessage())
	headers := map[string]string{}
	for name := range header {
		headers[strings.ToLower(name)] = header.Get(name)
	}
	input, err := json.Marshal(map[string]any{"headers": headers, "body": string(body), "secrets": []string{aSecret, oldSecret, otherSecret}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", verifyScript)
	cmd.Env, cmd.Stdin = []string{"NODE_PATH=" + modules}, bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "verified\nverified\nrefused\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAMessageAboutSeveralLoopsIsOneBody(t *testing.T) {
	t.Parallel()
	m := aMessage()
	m.ID, m.Key, m.Events = "group-1", "tenant=acme", append(m.Events, m.Events[0])
	_, body := rotating(t, m)
	var g struct {
		Type, ID string
		Key      string `json:"group_key"`
		Total    int
		Events   []event.Event
	}
	if err := json.Unmarshal(body, &g); err != nil || g.Type != "loop.group" || g.ID != "group-1" || g.Key != "tenant=acme" || g.Total != 2 || len(g.Events) != 2 {
		t.Errorf("%v: %s", err, body)
	}
}

func TestTemplatesWriteBodies(t *testing.T) {
	t.Parallel()
	p := httpPeer(t)
	b := build(t, `webhook: {url: "http://%s", content_type: text/plain, template: "{{.Title}}: {{range .Events}}{{.Data.HitCount}} {{severity .}} {{tools .}} {{saved .}}{{end}}"}`, p)
	if err := b.Sink.Send(t.Context(), aMessage()); err != nil {
		t.Fatal(err)
	}
	const want = "An agent of acme goes in circles and is stopped: the same prompt 6 times within 60 seconds, policy agent-tools: 6 critical read_file 1 request, about 2,500 tokens, about $0.03"
	if body := string(<-p.got); body != want || p.header.Get("Content-Type") != "text/plain" {
		t.Errorf("got %q as %s", body, p.header.Get("Content-Type"))
	}
}
