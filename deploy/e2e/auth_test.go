package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Keys of Unloop's own, and one of a provider.
const (
	aliceKey    = "uk-alice-0123456789abcdef"
	bobKey      = "uk-bob-fedcba9876543210"
	providerKey = "sk-of-the-company-0123456789"
)

// secret writes a secret to a file and returns its place.
func secret(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + file
}

// guarded lets in who has one of the two keys.
func guarded(t *testing.T) func(*system.Config) {
	t.Helper()
	place := secret(t, aliceKey+"\n"+bobKey)
	return func(cfg *system.Config) { cfg.Gateway.Auth = []string{"key:" + place} }
}

// injecting puts the provider's key in for every upstream, all at one address.
func injecting(t *testing.T, upstream string) func(*system.Config) {
	t.Helper()
	place := secret(t, providerKey)
	return func(cfg *system.Config) {
		cfg.Gateway.Upstream, cfg.Gateway.UpstreamKey = map[string]string{}, map[string]string{}
		for _, name := range []string{"openai", "anthropic", "gemini", "default", "azure"} {
			cfg.Gateway.Upstream[name], cfg.Gateway.UpstreamKey[name] = upstream, place
		}
	}
}

func TestClientWithoutAKeyIsRefusedInItsFormatsShape(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	url := start(t, upstream.url, guarded(t), everywhere(upstream.url)).URL()
	for path, shape := range map[string]string{
		"/v1/chat/completions":                `"type":"authentication_error"`,
		"/v1/messages":                        `"type":"authentication_error"`,
		"/v1beta/models/m:generateContent":    `"status":"UNAUTHENTICATED"`,
		"/any/path?key=" + aliceKey:           `"code":"unloop_key_missing"`,
		"/v1/models":                          `"code":"unloop_key_missing"`,
		"/openai/v1/responses":                `"type":"authentication_error"`,
		"/v1/messages/count_tokens?beta=true": `"type":"authentication_error"`,
	} {
		a := send(t, url, call{http.MethodPost, path, "{}", http.Header{"Authorization": {"Bearer " + aliceKey}}})
		if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), shape) || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: status %d, %s; want 401 with %s", path, a.status, a.body, shape)
		}
	}
	if n := len(upstream.Requests()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
	a := send(t, url, prompt("hello").with("X-Unloop-Key", bobKey))
	if a.status != http.StatusOK {
		t.Fatalf("with a key: status %d, %s", a.status, a.body)
	}
	got := upstream.Requests()[0].Header
	if got.Get("X-Unloop-Key") != "" || got.Get("Authorization") != "Bearer sk-one" {
		t.Errorf("the upstream saw %v", got)
	}
}

func TestOwnKeyNeverReachesAnUpstreamEvenWhereNoneIsAsked(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	url := start(t, upstream.url).URL()
	send(t, url, prompt("hello").with("X-Unloop-Key", aliceKey))
	if got := upstream.Requests()[0].Header; got.Get("X-Unloop-Key") != "" {
		t.Errorf("the upstream saw %v", got)
	}
}

func TestAddressWithManyWrongKeysMustWaitAndGoodOnesPass(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), guarded(t))
	if a := send(t, s.URL(), prompt("one").with("X-Unloop-Key", aliceKey)); a.status != http.StatusOK {
		t.Fatalf("status %d", a.status)
	}
	last := answered{}
	for n := 0; last.status != http.StatusTooManyRequests; n++ {
		last = send(t, s.URL(), prompt("x").with("X-Unloop-Key", fmt.Sprint("guess-", n)))
		if last.status != http.StatusUnauthorized && last.status != http.StatusTooManyRequests || n > 50 {
			t.Fatalf("guess %d: status %d", n, last.status)
		}
	}
	if last.header.Get("Retry-After") == "" || last.header.Get("X-Should-Retry") != "false" {
		t.Errorf("headers %v", last.header)
	}
	if a := send(t, s.URL(), prompt("two").with("X-Unloop-Key", aliceKey)); a.status != http.StatusOK {
		t.Errorf("a key in use, beside the guesses: status %d", a.status)
	}
	if n := metric(t, s, `unloop_gateway_auth_total{result="limited"}`); n != 1 {
		t.Errorf("metric counts %v limited requests", n)
	}
}

func TestProvidersKeyStandsInTheFormatsPlaceAndReplacesTheClients(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	url := start(t, upstream.url, injecting(t, upstream.url)).URL()
	for name, c := range map[string]struct {
		path, target, name, value string
		header                    http.Header
	}{
		"OpenAI":               {"/v1/chat/completions", "", "Authorization", "Bearer " + providerKey, http.Header{"Authorization": {"Bearer mine"}, "X-Api-Key": {"mine"}}},
		"no key at all":        {"/v1/models", "", "Authorization", "Bearer " + providerKey, nil},
		"Anthropic":            {"/v1/messages", "", "X-Api-Key", providerKey, http.Header{"X-Api-Key": {"mine"}}},
		"Anthropic, a token":   {"/v1/messages", "", "X-Api-Key", providerKey, http.Header{"Authorization": {"Bearer mine"}}},
		"Gemini, in a query":   {"/v1beta/models/m:generateContent?key=mine&alt=sse&x=%zz", "/v1beta/models/m:generateContent?alt=sse&x=%zz", "X-Goog-Api-Key", providerKey, nil},
		"Gemini, in a header":  {"/v1beta/models", "", "X-Goog-Api-Key", providerKey, http.Header{"X-Goog-Api-Key": {"mine"}}},
		"Gemini as OpenAI":     {"/v1beta/openai/chat/completions", "", "Authorization", "Bearer " + providerKey, http.Header{"Authorization": {"Bearer mine"}}},
		"Azure":                {"/azure/openai/deployments/d/chat/completions?api-version=1", "/openai/deployments/d/chat/completions?api-version=1", "Api-Key", providerKey, http.Header{"Api-Key": {"mine"}}},
		"the default upstream": {"/somewhere", "", "Authorization", "Bearer " + providerKey, http.Header{"Api-Key": nil, "Authorization": {"mine"}}},
	} {
		before := len(upstream.Requests())
		if a := send(t, url, call{http.MethodPost, c.path, "{}", c.header}); a.status != http.StatusOK {
			t.Fatalf("%s: status %d, %s", name, a.status, a.body)
		}
		got := upstream.Requests()[before]
		if c.target == "" {
			c.target = c.path
		}
		if diff := cmp.Diff([]string{providerPlace(c.name, c.value)}, keysOf(got.Header)); diff != "" || got.Target != c.target {
			t.Errorf("%s: target %q, keys (-want +got):\n%s", name, got.Target, diff)
		}
	}
}

func providerPlace(name, value string) string { return name + ": " + value }

// keysOf lists the headers that hold keys.
func keysOf(h http.Header) []string {
	var all []string
	for _, name := range []string{"Api-Key", "Authorization", "X-Api-Key", "X-Goog-Api-Key", "X-Unloop-Key"} {
		for _, value := range h.Values(name) {
			all = append(all, providerPlace(name, value))
		}
	}
	return all
}

func TestManyUsersBehindOneProvidersKeyAreManyCallers(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	url := start(t, upstream, injecting(t, upstream), guarded(t)).URL()
	as := func(name, value string) call { return prompt("again").with("Authorization", "").with(name, value) }
	loops := append(ok(5), http.StatusTooManyRequests)
	for name, c := range map[string]call{
		"a key in its own header":          as("X-Unloop-Key", aliceKey),
		"a key in the provider's place":    as("Authorization", "Bearer "+bobKey),
		"another user of the first client": chat(`{"model":"m","user":"carol","messages":[{"role":"user","content":"again"}]}`).with("Authorization", "Bearer "+aliceKey),
	} {
		if diff := cmp.Diff(loops, statuses(t, url, c, 6)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if a := send(t, url, as("Authorization", "Bearer "+aliceKey)); a.status != http.StatusTooManyRequests {
		t.Errorf("the first client's key in the other place: status %d; it is the same caller", a.status)
	}
	if a := send(t, url, prompt("again").with("Authorization", "Bearer sk-somebody")); a.status != http.StatusUnauthorized {
		t.Errorf("a provider's key of the client's own: status %d, want 401", a.status)
	}
}

func TestBlockOfOneClientIsNotAnothersWhenOnlyTheirKeysDiffer(t *testing.T) {
	t.Parallel()
	upstream := echo(t)
	url := start(t, upstream, injecting(t, upstream), guarded(t)).URL()
	again := prompt("again").with("Authorization", "")
	statuses(t, url, again.with("X-Unloop-Key", aliceKey), 8)
	if a := send(t, url, again.with("X-Unloop-Key", bobKey)); a.status != http.StatusOK {
		t.Errorf("status %d for the other client", a.status)
	}
}

// issuer publishes an Ed25519 key and returns what signs claims with it.
func issuer(t *testing.T) (url string, sign func(claims map[string]any) string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","x":%q}]}`, enc(public))
	}))
	t.Cleanup(server.Close)
	return server.URL, func(claims map[string]any) string {
		body, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		text := enc([]byte(`{"alg":"EdDSA","kid":"k1"}`)) + "." + enc(body)
		return text + "." + enc(ed25519.Sign(private, []byte(text)))
	}
}

func TestTokenSaysWhoTheClientAndItsTenantAre(t *testing.T) {
	t.Parallel()
	keys, sign := issuer(t)
	token := func(subject, tenant string, validFor time.Duration) string {
		return sign(map[string]any{"iss": "https://id.example", "sub": subject, "aud": "unloop", "org": tenant, "exp": time.Now().Add(validFor).Unix()})
	}
	upstream := serve(t, nil)
	s := start(t, upstream.url, injecting(t, upstream.url), func(cfg *system.Config) {
		cfg.Gateway.Auth, cfg.Gateway.AuthIssuer = []string{"jwt:" + keys}, "https://id.example"
		cfg.Gateway.AuthAudience, cfg.Gateway.AuthTenantClaim = []string{"unloop"}, "org"
	})
	nc := connect(t, s)
	detected, err := nc.SubscribeSync("loop.detected.>")
	if err == nil {
		err = errors.Join(detected.AutoUnsubscribe(1), nc.Flush())
	}
	if err != nil {
		t.Fatal(err)
	}
	alice := prompt("again").with("Authorization", "Bearer "+token("alice", "acme", time.Hour)).with("X-Tenant-ID", "somebody-else")
	if diff := cmp.Diff(append(ok(5), 429), statuses(t, s.URL(), alice, 6)); diff != "" {
		t.Errorf("in the provider's place (-want +got):\n%s", diff)
	}
	msg, err := detected.NextMsg(time.Minute)
	if err != nil || !strings.HasPrefix(msg.Subject, "loop.detected.acme.") {
		t.Errorf("event %+v, %v; want one of tenant acme", msg, err)
	}
	bob := prompt("again").with("X-Unloop-Key", token("bob", "acme", time.Hour))
	if a := send(t, s.URL(), bob); a.status != http.StatusOK {
		t.Errorf("another subject: status %d", a.status)
	}
	for name, bad := range map[string]string{
		"expired":   token("alice", "acme", -time.Hour),
		"no tenant": token("alice", "", time.Hour),
		"unsigned":  strings.Replace(token("alice", "acme", time.Hour), enc64(`{"alg":"EdDSA","kid":"k1"}`), enc64(`{"alg":"none"}`), 1),
	} {
		if a := send(t, s.URL(), prompt("x").with("X-Unloop-Key", bad)); a.status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, a.status)
		}
	}
	if got := keysOf(upstream.Requests()[0].Header); !cmp.Equal(got, []string{"Authorization: Bearer " + providerKey}) {
		t.Errorf("the upstream saw %q", got)
	}
}

func enc64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestGatewayWithoutItsKeysDoesNotStartAndNamesThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*gateway.Config)
		want string
	}{
		"a provider's key":    {func(c *gateway.Config) { c.UpstreamKey = map[string]string{"openai": "env:E2E_NO_SUCH_KEY"} }, "E2E_NO_SUCH_KEY"},
		"an unknown upstream": {func(c *gateway.Config) { c.UpstreamKey = map[string]string{"opnai": secret(t, providerKey)} }, "opnai"},
		"a key in the flag":   {func(c *gateway.Config) { c.UpstreamKey = map[string]string{"openai": providerKey} }, "env:VARIABLE or file:PATH"},
		"Unloop's own key":    {func(c *gateway.Config) { c.Auth = []string{"key:env:E2E_NO_SUCH_KEY"} }, "E2E_NO_SUCH_KEY"},
		"certificates":        {func(c *gateway.Config) { c.UpstreamCA = strings.TrimPrefix(secret(t, "none"), "file:") }, "--upstream-ca"},
	} {
		cfg := gateway.DefaultConfig()
		cfg.Listen = "127.0.0.1:0"
		c.edit(&cfg)
		_, err := gateway.New(cfg, service.Deps{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), providerKey) {
			t.Errorf("%s: %v, want it to name %s", name, err, c.want)
		}
	}
}

func TestAdminPortAsksForItsKeyAndAnswersProbes(t *testing.T) {
	t.Parallel()
	upstream := serve(t, scripted.Script(nil))
	admin := secret(t, bobKey)
	url := start(t, upstream.url, func(cfg *system.Config) { cfg.AdminAuth = []string{"key:" + admin} }).AdminURL()
	get := func(path, name, value string) answered {
		return send(t, url, call{http.MethodGet, path, "", http.Header{name: {value}}})
	}
	if a := get("/healthz", "X-None", ""); a.status != http.StatusOK {
		t.Errorf("/healthz: status %d", a.status)
	}
	if a := get("/readyz", "X-None", ""); a.status != http.StatusOK || len(a.body) > 0 {
		t.Errorf("/readyz: status %d, %q; want its status alone", a.status, a.body)
	}
	if a := get("/readyz", "X-Unloop-Key", bobKey); !strings.Contains(string(a.body), "gateway: ready") {
		t.Errorf("/readyz with the key: %q", a.body)
	}
	if a := get("/metrics", "X-None", ""); a.status != http.StatusUnauthorized || strings.Contains(string(a.body), "unloop_") {
		t.Errorf("/metrics: status %d, %d bytes", a.status, len(a.body))
	}
	if a := get("/metrics", "Authorization", "Bearer "+bobKey); a.status != http.StatusOK || !strings.Contains(string(a.body), "unloop_") {
		t.Errorf("/metrics with the key: status %d", a.status)
	}
}

// untold is a body that never ends and says nothing.
type untold struct{}

func (untold) Read(p []byte) (int, error) {
	return copy(p, " "), nil
}

func TestAChecksBodyIsNotReadBeforeItsClientIsLetIn(t *testing.T) {
	t.Parallel()
	url := start(t, serve(t, greeting).url, guarded(t)).URL()
	for name, key := range map[string]string{"no key": "", "a wrong key": "uk-nobody-0123456789abcdef"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/unloop/v1/check", untold{})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Unloop-Key", key)
		res, err := http.DefaultClient.Do(req) // a gateway that reads first never answers
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _ = res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, res.StatusCode)
		}
	}
}
