package gateway

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// answered is an answer's head.
type answered struct {
	StatusCode int
	Header     http.Header
}

// post sends a prompt to a gateway and reads the answer.
func post(t *testing.T, g *Gateway, path string, header http.Header) (answered, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+path,
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello there"}]}`))
	must(t, err)
	req.Header.Set("Authorization", "Bearer sk-one")
	maps.Copy(req.Header, header)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return answered{res.StatusCode, res.Header}, string(body)
}

// upstream is one that counts what reaches it.
func upstream(t *testing.T) (url string, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	return server.URL, reached
}

// at makes a gateway forward to one upstream.
func at(url string) func(*Config) {
	return func(c *Config) {
		c.Upstream = map[string]string{"openai": url, "anthropic": url, "gemini": url, "default": url}
	}
}

// withBundle makes a gateway load a bundle.
func withBundle(t *testing.T, text string) func(*Config) {
	t.Helper()
	file := t.TempDir() + "/policies.yaml"
	put(t, file, text)
	return func(c *Config) { c.Policies = file }
}

const noPolicies = "bundle_version: 1\npolicies: []\n"

// until asks again until an answer has the status.
func until(t *testing.T, g *Gateway, status int, header http.Header) (answered, string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		res, body := post(t, g, "/v1/chat/completions", header)
		if res.StatusCode == status {
			return res, body
		}
		if time.Now().After(deadline) {
			t.Fatalf("status stays %d, want %d", res.StatusCode, status)
		}
	}
}

func TestBlockIsFollowedByEveryGatewayAndEnds(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	url, reached := upstream(t)
	gateways := []*Gateway{following(t, s, at(url), withBundle(t, noPolicies)), following(t, s, at(url), withBundle(t, noPolicies))}
	for _, g := range gateways {
		run(t, g)
	}
	kv := bucket(t, s, schemas.BucketOverrides)
	block := schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme & co", Reason: "runaway batch", ExpiresAt: time.Now().Add(time.Hour)}
	body, err := json.Marshal(block)
	must(t, err)
	_, err = kv.Put(t.Context(), block.Key(), body)
	must(t, err)
	acme, globex := http.Header{"X-Tenant-Id": {"acme & co"}}, http.Header{"X-Tenant-Id": {"globex"}}
	for _, g := range gateways {
		res, text := until(t, g, http.StatusForbidden, acme)
		if !strings.Contains(text, override.Code) || !strings.Contains(text, "runaway batch") || res.Header.Get("Retry-After") != "" ||
			res.Header.Get("X-Loop-Reason") != "kill_switch" || res.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("refused with %v %s", res.Header, text)
		}
		before := reached.Load()
		if res, _ := post(t, g, "/v1/chat/completions", globex); res.StatusCode != http.StatusOK || reached.Load() != before+1 {
			t.Errorf("another tenant got %d", res.StatusCode)
		}
	}
	must(t, kv.Delete(t.Context(), block.Key()))
	for _, g := range gateways {
		until(t, g, http.StatusOK, acme)
	}
}

func TestOverrideEndsByItsTimeAndNotByItsRecord(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	url, _ := upstream(t)
	kv := bucket(t, s, schemas.BucketOverrides)
	var clock atomic.Int64
	start := time.Now()
	g := following(t, s, at(url), withBundle(t, noPolicies))
	g.now = func() time.Time { return start.Add(time.Duration(clock.Load())) }
	for _, o := range []schemas.Override{
		{Action: schemas.OverrideBlock, Scope: schemas.ScopeSession, Value: "job-7", ExpiresAt: start.Add(10 * time.Minute)},
		{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme", ExpiresAt: start.Add(10 * time.Minute)},
		{Action: schemas.OverrideExempt, Scope: schemas.ScopeProject, Value: "batch", ExpiresAt: start.Add(10 * time.Minute)},
	} {
		body, err := json.Marshal(o)
		must(t, err)
		_, err = kv.Put(t.Context(), o.Key(), body)
		must(t, err)
	}
	_, err := kv.Put(t.Context(), "block.tenant.globex", []byte("{"))
	must(t, err)
	run(t, g)
	tenant := func(name string) int {
		res, _ := post(t, g, "/v1/chat/completions", http.Header{"X-Tenant-Id": {name}})
		return res.StatusCode
	}
	exempt := func() string {
		res, _ := post(t, g, "/v1/chat/completions", http.Header{"X-Project-Id": {"batch"}})
		return res.Header.Get("X-Loop-Exempt")
	}
	for _, key := range []string{"sk-one", "sk-two"} {
		res, _ := post(t, g, "/v1/chat/completions", http.Header{"X-Session-Id": {"job-7"}, "Authorization": {"Bearer " + key}})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("the blocked session of %s: %d", key, res.StatusCode)
		}
	}
	if acme, globex, label := tenant("acme"), tenant("globex"), exempt(); acme != 403 || globex != 200 || label != "project" {
		t.Errorf("acme %d, globex (unreadable record) %d, exempt %q; want 403, 200, project", acme, globex, label)
	}
	clock.Store(int64(10 * time.Minute))
	if acme, label := tenant("acme"), exempt(); acme != 200 || label != "" {
		t.Errorf("after the end: acme %d, exempt %q; want 200 and none", acme, label)
	}
}

func TestExemptRequestsPassWithoutACheck(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	url, _ := upstream(t)
	// Without a detector, a request that is to be checked fails closed.
	g := following(t, s, at(url), withBundle(t, "bundle_version: 1\npolicies: [{id: p, spec: {failure_mode: closed, prompt: {}}}]\n"))
	run(t, g)
	if res, _ := post(t, g, "/v1/chat/completions", nil); res.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("unchecked request got %d", res.StatusCode)
	}
	o := schemas.Override{Action: schemas.OverrideExempt, Scope: schemas.ScopeProject, Value: "batch", ExpiresAt: time.Now().Add(time.Hour)}
	body, err := json.Marshal(o)
	must(t, err)
	_, err = bucket(t, s, schemas.BucketOverrides).Put(t.Context(), o.Key(), body)
	must(t, err)
	res, _ := until(t, g, http.StatusOK, http.Header{"X-Project-Id": {"batch"}})
	if res.Header.Get("X-Loop-Exempt") != "project" {
		t.Errorf("headers %v", res.Header)
	}
}

func TestKillSwitchesOfTheBundle(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	url, reached := upstream(t)
	g := following(t, s, at(url), withBundle(t, `
bundle_version: 1
compat: [fairvisor]
kill_switches:
  - {scope_key: "header:x-org", scope_value: acme, reason: unpaid}
  - {scope_key: "header:x-org", scope_value: routed, route: /v1/messages}
  - {scope_key: "header:x-org", scope_value: past, expires_at: 2020-01-01T00:00:00Z}
policies: []
`))
	run(t, g)
	for _, c := range []struct {
		path, org string
		status    int
		contains  string
	}{
		{"/v1/chat/completions", "acme", 403, `"code":"loop_kill_switch"`},
		{"/v1/responses", "acme", 403, "unpaid"},
		{"/v1/messages", "acme", 403, `"type":"permission_error"`},
		{"/v1beta/models/m:generateContent", "acme", 403, "PERMISSION_DENIED"},
		{"/v1/messages", "routed", 403, override.Code},
		{"/v1/chat/completions", "routed", 200, ""},
		{"/v1/chat/completions", "past", 200, ""},
		{"/v1/chat/completions", "globex", 200, ""},
	} {
		before := reached.Load()
		res, body := post(t, g, c.path, http.Header{"X-Org": {c.org}})
		if res.StatusCode != c.status || !strings.Contains(body, c.contains) || (reached.Load() > before) != (c.status == 200) {
			t.Errorf("%s for %s: %d %s", c.path, c.org, res.StatusCode, body)
		}
		if c.status == 403 && res.Header.Get("X-Fairvisor-Reason") != "kill_switch" {
			t.Errorf("%s for %s: no X-Fairvisor-Reason", c.path, c.org)
		}
	}
}

func TestKillSwitchOverrideTurnsThemOff(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	url, _ := upstream(t)
	g := following(t, s, at(url), withBundle(t, `
bundle_version: 1
kill_switch_override: true
kill_switches: [{scope_key: tenant, scope_value: acme}]
policies: []
`))
	run(t, g)
	if res, _ := post(t, g, "/v1/chat/completions", http.Header{"X-Tenant-Id": {"acme"}}); res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
}
