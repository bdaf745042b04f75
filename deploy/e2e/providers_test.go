package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
)

// Keys as each provider's look, one for each place where a client may put it.
const (
	openaiKey      = "sk-openai-3141592653589793"
	azureKey       = "azure-2718281828459045"
	anthropicKey   = "sk-ant-api03-1618033988749894"
	anthropicToken = "sk-ant-oat01-1414213562373095"
	geminiKey      = "AIza-header-5772156649015328"
	geminiQuery    = "AIza-query-6931471805599453"
	bedrockKey     = "ABSK-6180339887498948"
	bedrockAccess  = "AKIA2236067977499789"
)

// providerCalls are calls of each provider's paths, by the provider's name.
func providerCalls() map[string][]call {
	prompts := func(path, body string, header http.Header) []call {
		return []call{{http.MethodPost, path, body, header}}
	}
	openai := http.Header{"Authorization": {"Bearer " + openaiKey}}
	anthropic := http.Header{"X-Api-Key": {anthropicKey}, "Anthropic-Version": {"2023-06-01"}}
	token := http.Header{"Authorization": {"Bearer " + anthropicToken}, "Anthropic-Version": {"2023-06-01"}}
	gemini := http.Header{"X-Goog-Api-Key": {geminiKey}}
	signed := http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=" + bedrockAccess + "/20260522/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"}}
	chat, message, content := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `{"contents":[{"parts":[{"text":"hi"}]}]}`
	return map[string][]call{
		"openai": slices.Concat(
			prompts("/v1/chat/completions", chat, openai),
			prompts("/v1/responses", `{"model":"m","input":"hi"}`, openai),
			prompts("/v1/embeddings", `{"model":"m","input":"hi"}`, openai),
			prompts("/openai/deployments/m/chat/completions?api-version=1", chat, http.Header{"Api-Key": {azureKey}}),
			[]call{{http.MethodGet, "/v1/models", "", openai}, {http.MethodDelete, "/v1/files/f", "", openai}},
		),
		"anthropic": slices.Concat(
			prompts("/v1/messages", message, anthropic),
			prompts("/v1/messages?beta=true", message, token),
			prompts("/v1/messages", message, http.Header{"X-Api-Key": {anthropicKey}}), // without a version
			prompts("/v1/messages/count_tokens", message, anthropic),
			prompts("/v1/messages/count_tokens", message, http.Header{"X-Api-Key": {anthropicKey}}),
			prompts("/v1/messages/batches", `{"requests":[]}`, token),
			prompts("/anthropic/v1/messages", message, anthropic),
			[]call{{http.MethodGet, "/v1/models", "", anthropic}, {http.MethodGet, "/v1/files", "", token}},
		),
		"gemini": slices.Concat(
			prompts("/v1beta/models/m:generateContent", content, gemini),
			prompts("/v1beta/models/m:streamGenerateContent?alt=sse&key="+geminiQuery, content, nil),
			prompts("/v1alpha/models/m:countTokens?key="+geminiQuery, content, nil),
			prompts("/v1beta/models/m:embedContent", content, gemini),
			prompts("/v1beta/openai/chat/completions", chat, http.Header{"Authorization": {"Bearer " + geminiKey}}),
			prompts("/upload/v1beta/files?uploadType=resumable&key="+geminiQuery, "bytes", nil),
			[]call{{http.MethodGet, "/v1beta/models?key=" + geminiQuery + "&pageSize=5", "", nil}},
		),
		"bedrock": slices.Concat(
			prompts("/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, http.Header{"Authorization": {"Bearer " + bedrockKey}}),
			prompts("/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, signed),
			prompts("/model/m/invoke", message, signed),
			prompts("/bedrock/guardrail/g/version/1/apply", "{}", signed),
		),
	}
}

// ownKeys are the keys that a provider may see.
var ownKeys = map[string][]string{
	"openai":    {openaiKey, azureKey},
	"anthropic": {anthropicKey, anthropicToken},
	"gemini":    {geminiKey, geminiQuery},
	"bedrock":   {bedrockKey, bedrockAccess},
}

// target is what the upstream is asked for: the path without the prefix that
// named the upstream.
func (c call) target(provider string) string {
	return c.method + " " + strings.TrimPrefix(c.path, "/"+provider)
}

func TestEachProvidersKeysReachItsOwnUpstreamOnly(t *testing.T) {
	t.Parallel()
	upstreams := map[string]served{"openai": serve(t, nil), "anthropic": serve(t, nil), "gemini": serve(t, nil), "bedrock": serve(t, nil), "default": serve(t, nil)}
	url := start(t, "", func(cfg *system.Config) {
		for name, u := range upstreams {
			cfg.Gateway.Upstream[name] = u.url
		}
	}).URL()
	want := map[string][]string{"default": nil}
	for provider, calls := range providerCalls() {
		for _, c := range calls {
			if a := send(t, url, c); a.status != http.StatusOK {
				t.Errorf("%s %s: status %d, %s", c.method, c.path, a.status, a.body)
			}
			want[provider] = append(want[provider], c.target(provider))
		}
	}
	for name, upstream := range upstreams {
		var got []string
		for _, r := range upstream.Requests() {
			got = append(got, r.Method+" "+r.Target)
			checkForeignKeys(t, name, r)
		}
		if diff := cmp.Diff(want[name], got); diff != "" {
			t.Errorf("what %s was asked (-want +got):\n%s", name, diff)
		}
	}
}

// checkForeignKeys expects a request to hold one of its provider's keys, and no
// other's.
func checkForeignKeys(t *testing.T, name string, r scripted.Request) {
	t.Helper()
	whole := fmt.Sprintf("%s %v %s", r.Target, r.Header, r.Body)
	for provider, keys := range ownKeys {
		has := slices.ContainsFunc(keys, func(key string) bool { return strings.Contains(whole, key) })
		if has != (provider == name) {
			t.Errorf("%s was asked for %s with %s's key: %v", name, r.Target, provider, has)
		}
	}
}

func TestRedirectOfAnUpstreamIsTheClientsToFollow(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, nil)
	upstream := httptest.NewServer(http.RedirectHandler(elsewhere.url+"/v1/messages", http.StatusTemporaryRedirect))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL).URL()
	for _, calls := range providerCalls() {
		req, err := http.NewRequestWithContext(t.Context(), calls[0].method, url+calls[0].path, strings.NewReader(calls[0].body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = calls[0].header
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusTemporaryRedirect || res.Header.Get("Location") != elsewhere.url+"/v1/messages" {
			t.Errorf("%s: status %d to %q", calls[0].path, res.StatusCode, res.Header.Get("Location"))
		}
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("the gateway followed %d redirects, with the client's keys", n)
	}
}

// published collects every message on the system's NATS, those of its KV buckets
// among them.
func published(t *testing.T, s *system.System) *lines {
	t.Helper()
	nc := connect(t, s)
	all := &lines{}
	if _, err := nc.Subscribe(">", func(m *nats.Msg) {
		_, _ = fmt.Fprintf(all, "%s %v %s\n", m.Subject, m.Header, m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestKeysAreNeitherLoggedNorPublishedNorMeasured(t *testing.T) {
	t.Parallel()
	log := &lines{}
	upstream := serve(t, nil)
	s, stop := startLogging(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), upstream.url)
	messages := published(t, s)
	away, stopAway := startLogging(t, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), "http://127.0.0.1:1")
	for _, calls := range providerCalls() {
		for _, c := range calls {
			statuses(t, s.URL(), c, 7) // the last ones are refused, and reported as a loop
			send(t, away.URL(), c)     // the upstream can't be reached
		}
	}
	cutOff(t, s.URL(), "/v1beta/models/m:generateContent?key="+geminiQuery)
	metrics := send(t, s.AdminURL(), call{http.MethodGet, "/metrics", "", nil})
	stop()
	stopAway()
	for place, text := range map[string]string{"the log": log.String(), "NATS": messages.String(), "the metrics": string(metrics.body)} {
		if len(text) < 100 {
			t.Errorf("%s has hardly anything: %q", place, text)
		}
		for _, key := range slices.Concat(slices.Collect(maps.Values(ownKeys))...) {
			if at := strings.Index(text, key); at >= 0 {
				t.Errorf("%s shows a key: …%s…", place, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
}

// cutOff sends half a request and hangs up.
func cutOff(t *testing.T, url, path string) {
	t.Helper()
	body, half := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(half, `{"contents":[{"par`)
		_ = half.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
		_ = res.Body.Close()
		t.Errorf("a body that was cut off is answered with %d", res.StatusCode)
	}
}

func TestErrorsComeBeforeAStreamBeginsInEachFormat(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct {
		body string
		want map[string]any
	}{
		"/v1/chat/completions": {`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, map[string]any{"type": "rate_limit_error", "code": "recursive_loop_detected", "param": nil}},
		"/v1/responses":        {`{"model":"m","stream":true,"input":"hi"}`, map[string]any{"type": "rate_limit_error", "code": "recursive_loop_detected", "param": nil}},
		"/v1/messages":         {`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, map[string]any{"type": "rate_limit_error", "code": "recursive_loop_detected"}},
		"/v1beta/models/m:streamGenerateContent?alt=sse": {`{"contents":[{"parts":[{"text":"hi"}]}]}`, map[string]any{"code": 429.0, "status": "RESOURCE_EXHAUSTED"}},
		"/v1beta/models/m:streamGenerateContent":         {`{"contents":[{"parts":[{"text":"hi"}]}]}`, map[string]any{"code": 429.0, "status": "RESOURCE_EXHAUSTED"}},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			upstream := serve(t, nil)
			url := start(t, upstream.url).URL()
			ask := call{http.MethodPost, path, c.body, http.Header{"Accept": {"text/event-stream"}}}
			if diff := cmp.Diff(ok(5), statuses(t, url, ask, 5)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			a := send(t, url, ask)
			if a.status != http.StatusTooManyRequests || a.header.Get("Content-Type") != "application/json" || fmt.Sprint(len(a.body)) != a.header.Get("Content-Length") {
				t.Errorf("status %d, header %v", a.status, a.header)
			}
			var document struct {
				Error  map[string]any
				Detail detail
			}
			if err := json.Unmarshal(a.body, &document); err != nil {
				t.Fatalf("%s: %v", a.body, err)
			}
			message, _ := document.Error["message"].(string)
			if !strings.Contains(message, "recursive_loop_detected") || document.Detail.HitCount != 6 {
				t.Errorf("%s", a.body)
			}
			for _, member := range []string{"message", "detail", "details"} {
				delete(document.Error, member)
			}
			if diff := cmp.Diff(c.want, document.Error); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if n := len(upstream.Requests()); n != 5 {
				t.Errorf("the upstream saw %d requests, want 5", n)
			}
		})
	}
}
