package observe

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// key opens the admin ports and the gateways of the tests.
const key = "a-key-of-the-tests-0123456789"

// patience is longer than any check takes on a machine under load.
const patience = 20 * time.Second

// bundle has policies for whatever the dashboards show.
const bundle = `
bundle_version: 1
kill_switches: [{scope_key: "header:x-kill", scope_value: "yes", reason: test}]
policies:
  - {id: exact, spec: {prompt: {max_hits: 4, window_seconds: 60, cooldown_seconds: 30}, semantic: {}, reject: 429}}
  - {id: hinted, spec: {prompt: {max_hits: 2, action: hint}}}
  - {id: watched, spec: {mode: shadow, prompt: {max_hits: 2}}}
  - {id: mended, spec: {selector: {pathExact: /v1/chat/completions}, session_repair: {enabled: true}}}
  - id: limited
    spec:
      rules:
        - {name: all, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1000, burst: 1000}}
        - {name: teams, limit_keys: ["header:x-team"], algorithm: token_bucket, algorithm_config: {rps: 1000, burst: 1000}}
`

// closed has a policy that refuses what no detector decides, and one that lets it pass.
const closed = `
bundle_version: 2
policies:
  - {id: strict, spec: {selector: {pathExact: /v1/chat/completions}, failure_mode: closed, prompt: {}}}
  - {id: loose, spec: {prompt: {}}}
`

// live is a system with all services, and a gateway of its own NATS without detectors.
type live struct {
	gateway, admin   string // of the system
	alone, aloneOnly string // of the gateway without detectors, and its admin port
	keyFile          string
	delivered        chan string
}

// startLive starts both, until the test ends.
func startLive(t *testing.T) *live {
	t.Helper()
	l := &live{keyFile: filepath.Join(t.TempDir(), "key"), delivered: make(chan string, 64)}
	write(t, l.keyFile, key+"\n")
	upstream := serve(t, answer)
	cfg := system.DefaultConfig()
	cfg.AdminAuth = []string{"key:file:" + l.keyFile}
	cfg.OverNATS = true
	cfg.Embedworker.Embedder = "lexical"
	cfg.Gateway.CheckTimeout, cfg.Gateway.StartGrace = patience, patience
	cfg.Gateway.Auth, cfg.Gateway.AuthAudience = []string{"key:file:" + l.keyFile, "jwt:" + serve(t, issue) + "/keys"}, []string{"unloop"}
	cfg.Gateway.Upstream = map[string]string{"openai": upstream, "failing": upstream + "/failing", "away": "http://" + natstest.FreeAddr(t)}
	cfg.Gateway.Policies = bundleFile(t, bundle)
	cfg.Notifier.Webhook, cfg.Notifier.AllowCIDR = serve(t, l.receive), []string{"127.0.0.0/8"}
	cfg.Notifier.WebhookTo = []string{serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })}
	s, err := system.New(cfg, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	run(t, s.Run)
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.gateway, l.admin = s.URL(), strings.TrimPrefix(s.AdminURL(), "http://")
	l.startAlone(t, upstream)
	return l
}

// startAlone starts the gateway without detectors.
func (l *live) startAlone(t *testing.T, upstream string) {
	t.Helper()
	embedded, err := natskit.StartEmbedded(natskit.EmbeddedConfig{DataDir: natskit.InMemory}, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(embedded.Stop)
	conn, err := embedded.Connect("gateway", quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	cfg, metrics := gateway.DefaultConfig(), service.NewRegistry()
	cfg.CheckTimeout = patience
	cfg.Listen, cfg.Policies, cfg.Upstream = system.FreePort, bundleFile(t, closed), map[string]string{"openai": upstream}
	g, err := gateway.New(cfg, service.Deps{Log: quiet(t), Metrics: metrics, NATS: conn, Layout: embedded.Layout()})
	if err != nil {
		t.Fatal(err)
	}
	service.Attach(t.Context(), "gateway", g, metrics, conn, embedded.Layout())
	admin, err := service.NewAdmin(system.FreePort, cfg.Pages, metrics, service.Named{Name: "gateway", Service: g})
	if err != nil {
		t.Fatal(err)
	}
	run(t, func(ctx context.Context) error {
		return service.RunAll(ctx, service.Named{Name: "gateway", Service: g}, service.Named{Name: "admin", Service: admin})
	})
	if err := g.Readiness().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.alone, l.aloneOnly = "http://"+g.Addr(), admin.Addr()
}

func quiet(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

// run runs a part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func bundleFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, file, text)
	return file
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// answer is an upstream that answers, except below /failing.
func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if strings.HasPrefix(r.URL.Path, "/failing") {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}]}`)
}

// issue is an issuer of tokens with the key of RFC 7517's first example.
func issue(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"keys":[{"kty":"EC","crv":"P-256","use":"sig","kid":"1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`)
}

// receive is the endpoint that takes messages.
func (l *live) receive(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.delivered <- string(body)
}

// request is one that clients send some times.
type request struct {
	path, body string
	header     map[string]string
	times      int
	status     int // of the last answer; 0 for any
}

const (
	again  = `{"model":"gpt-4o","messages":[{"role":"user","content":"Read the file main.go and say what it does, please."}]}`
	broken = `{"model":"gpt-4o","messages":[{"role":"user","content":"go"},{"role":"tool","tool_call_id":"gone","content":"orphan"},{"role":"user","content":"on"}]}`
	torn   = `{"model":"gpt-4o","model":"gpt-4o","messages":[{"role":"user","content":"twice"}]}`
	chat   = "/v1/chat/completions"
)

// reworded is a prompt of a session whose texts are compared.
func reworded(text string) string {
	return `{"model":"gpt-4o","messages":[{"role":"user","content":"Find out how this program is configured."},{"role":"assistant","content":"` + text + `."},{"role":"user","content":"` + text + `, and explain in detail what it does with each key."}]}`
}

// traffic has loops, faults and refusals of every kind that the dashboards show.
var traffic = []request{
	{path: chat, body: again, times: 6, status: 429, header: map[string]string{"X-Tenant-Id": "acme", "X-Project-Id": "search", "X-Team": "one"}},
	{path: chat, body: reworded("Search the repository for the function that reads the configuration file"), times: 1, status: 200},
	{path: chat, body: reworded("Look through the repository for the function reading the configuration file"), times: 1, status: 200},
	{path: chat, body: broken, times: 1, status: 200},
	{path: chat, body: torn, times: 1, status: 200},
	{path: chat, body: again, times: 1, status: 403, header: map[string]string{"X-Kill": "yes"}},
	{path: chat, body: again, times: 1, status: 401, header: map[string]string{"X-Unloop-Key": "wrong-wrong-wrong-wrong"}},
	{path: chat, body: again, times: 1, status: 403, header: map[string]string{"Origin": "https://elsewhere.example"}},
	{path: "/failing" + chat, body: `{"model":"m","messages":[{"role":"user","content":"fail"}]}`, times: 1, status: 500},
	{path: "/away" + chat, body: `{"model":"m","messages":[{"role":"user","content":"nobody"}]}`, times: 1, status: 502},
}

// send sends the traffic.
func (l *live) send(t *testing.T) {
	t.Helper()
	for _, one := range traffic {
		one.send(t, l.gateway)
	}
	request{path: chat, body: again, times: 1, status: 503}.send(t, l.alone)
	request{path: "/v1/responses", body: `{"model":"gpt-4o","input":"hello"}`, times: 1, status: 200}.send(t, l.alone)
}

func (one request) send(t *testing.T, gateway string) {
	t.Helper()
	status := 0
	for range one.times {
		req, err := http.NewRequest(http.MethodPost, gateway+one.path, strings.NewReader(one.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Unloop-Key", key)
		for name, value := range one.header {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		status = res.StatusCode
	}
	if status != one.status {
		t.Errorf("%s %s: status %d, want %d", one.path, one.body, status, one.status)
	}
}

// loopID is the id of a loop in a message.
var loopID = regexp.MustCompile(`"loop_id":"([^"]+)"`)

// release ends the loop of the first message, so that one has ended.
func (l *live) release(t *testing.T) {
	t.Helper()
	id := loopID.FindStringSubmatch(<-l.delivered)
	if id == nil {
		t.Fatal("a message names no loop")
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+l.admin+"/api/v1/loops/"+id[1]+"/release", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatalf("release %s: %s: %s", id[1], res.Status, body)
	}
}
