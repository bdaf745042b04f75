package e2e

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// TestPagesCantSpendTheProvidersKey sends what a web page can make a browser
// send to a gateway on loopback that holds the provider's key.
func TestPagesCantSpendTheProvidersKey(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	s := start(t, upstream.url, injecting(t, upstream.url))
	const chat = "/v1/chat/completions"
	for name, c := range map[string]struct {
		method, path, host string
		header             http.Header
	}{
		"a text/plain POST":      {http.MethodPost, chat, "", http.Header{"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}}},
		"a page without origin":  {http.MethodPost, "/v1/messages", "", http.Header{"Origin": {"null"}}},
		"a rebound name":         {http.MethodPost, chat, "evil.example:8080", nil},
		"a rebound name, GET":    {http.MethodGet, "/v1/models", "evil.example", nil},
		"a preflight":            {http.MethodOptions, chat, "", http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}}},
		"a WebSocket":            {http.MethodGet, "/v1/realtime", "", http.Header{"Origin": {"https://evil.example"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}},
		"an image":               {http.MethodGet, "/v1/models", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}},
		"the gateway's own API":  {http.MethodPost, "/unloop/v1/check", "", http.Header{"Origin": {"https://evil.example"}}},
		"the gateway's ping":     {http.MethodGet, "/unloop/v1/ping", "evil.example", nil},
		"Gemini":                 {http.MethodPost, "/v1beta/models/m:generateContent", "", http.Header{"Sec-Fetch-Site": {"same-site"}}},
		"another port's page":    {http.MethodPost, chat, "", http.Header{"Origin": {"http://127.0.0.1:3000"}}},
		"an upload by a rebound": {http.MethodPost, "/upload/v1beta/files", "evil.example", nil},
	} {
		status, header, body := fromPage(t, s.URL()+c.path, c.method, c.host, c.header)
		if status != http.StatusForbidden || header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(strings.ToLower(body), "foreign_") {
			t.Errorf("%s: status %d, %s; want 403", name, status, body)
		}
	}
	if got := len(upstream.Requests()); got != 0 {
		t.Errorf("%d requests reached the upstream", got)
	}
	if status, _, body := fromPage(t, s.AdminURL()+"/metrics", http.MethodGet, "evil.example", nil); status != http.StatusForbidden {
		t.Errorf("the admin port: status %d, %.60s; want 403", status, body)
	}
	if status, _, _ := fromPage(t, s.URL()+chat, http.MethodPost, "", nil); status != http.StatusOK {
		t.Errorf("a program: status %d", status)
	}
}

func TestPagesThatAreAllowedPass(t *testing.T) {
	t.Parallel()
	upstream := serve(t, nil)
	s := start(t, upstream.url, func(cfg *system.Config) {
		cfg.Gateway.Pages.AllowHost, cfg.Gateway.Pages.AllowOrigin = []string{"gateway.internal"}, []string{"https://app.example"}
	})
	page := http.Header{"Origin": {"https://app.example"}, "Sec-Fetch-Site": {"cross-site"}}
	status, header, _ := fromPage(t, s.URL()+"/v1/chat/completions", http.MethodPost, "gateway.internal:8080", page)
	if status != http.StatusOK || len(header.Values("Access-Control-Allow-Origin")) != 1 || header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("status %d, %v", status, header)
	}
	page.Set("Access-Control-Request-Method", "POST")
	if status, _, _ := fromPage(t, s.URL()+"/v1/chat/completions", http.MethodOptions, "", page); status != http.StatusNoContent {
		t.Errorf("preflight: status %d", status)
	}
}

// fromPage sends a request as a browser would for a page.
func fromPage(t *testing.T, url, method, host string, header http.Header) (status int, h http.Header, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	maps.Copy(req.Header, header)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(text)
}
