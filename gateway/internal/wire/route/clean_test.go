package route

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestAPathIsKnownHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]string{"azure": "https://azure.example/openai/deployments", "default": "https://other.example"})
	if err != nil {
		t.Fatal(err)
	}
	const chat = "/v1/chat/completions"
	for written, want := range map[string]string{
		chat:                               chat,
		"/openai" + chat:                   chat,
		"/openai/" + chat:                  chat,
		"/v1//chat/completions":            chat,
		"/v1/./chat/completions":           chat,
		"/v1/chat/completions/":            chat,
		"/v1/x/../chat/completions":        chat,
		"/v1/%2e/chat/completions":         chat,
		"/v1/x/%2E%2e/chat/completions":    chat,
		"/v1%2Fchat%2fcompletions":         chat,
		"/v1/%63hat/completions":           chat,
		"//v1/chat/completions":            chat,
		"/azure/gpt-4/chat/completions":    "/openai/deployments/gpt-4/chat/completions",
		"/azure//gpt-4/./chat/completions": "/openai/deployments/gpt-4/chat/completions",
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+written, nil)
		target, ok := table.Route(r)
		if !ok || target.Escapes {
			t.Errorf("%s: goes nowhere", written)
		}
		if r.URL.Path != want && !slices.Contains(target.Paths, want) {
			t.Errorf("%s: known as %q, want %s", written, target.Paths, want)
		}
		if strings.HasPrefix(written, "/azure") {
			want = "/azure/gpt-4/chat/completions"
		}
		if target.Canonical != want {
			t.Errorf("%s: stands for %s, want %s", written, target.Canonical, want)
		}
	}
}

// Some upstreams decode twice, drop parameters of segments, or take backslashes for
// slashes: what matches the path that they see matches.
func TestAPathIsKnownAsLaxUpstreamsReadIt(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]string{"default": "https://other.example"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "/v1/chat/completions"
	for _, written := range []string{
		"/v1/%2563hat/completions", "/v1/chat%252Fcompletions", "/v1/chat%5Ccompletions", "/v1/chat/completions;x=1", "/v1;a=b/chat/completions",
		"/v1/%252e/chat/completions", "/v1/chat/x/%252e%252e/completions", "/v1/chat/x/..;/completions", "/openai/v1/chat/completions%3Bx",
		"/v1/chat/completions%20", "/v1/chat/completions%00", "/v1/chat/completions%3Fx", "/v1/chat/completions%23f",
	} {
		target, _ := table.Route(httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+written, nil))
		if !slices.Contains(target.Paths, want) {
			t.Errorf("%s: known as %q, want %s among them", written, target.Paths, want)
		}
	}
}

func TestDotSegmentsNeverLeaveAnUpstreamsBasePath(t *testing.T) {
	t.Parallel()
	table, err := NewTable(map[string]string{"azure": "https://azure.example/openai/deployments"})
	if err != nil {
		t.Fatal(err)
	}
	for written, want := range map[string]bool{
		"/azure/../admin":             true,
		"/azure/..%09/admin":          true,
		"/azure/.%00./admin":          true,
		"/azure/%2e%2e/admin":         true,
		"/azure/.%2E/admin":           true,
		"/azure/%252e%252e/admin":     true,
		"/azure/a/../../admin":        true,
		"/azure/a%2F..%2F..%2Fadmin":  true,
		"/azure/..%5Cadmin":           true,
		"/azure/..;/admin":            true,
		"/openai/../anthropic/v1/x":   true,
		"/azure/a/../b":               false,
		"/azure/a..b/...":             false,
		"/azure/./a":                  false,
		"/azure/v1.5/models/a%2Fb":    false,
		"/v1beta/models/gemini-2.5:x": false,
	} {
		target, ok := table.Route(httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+written, nil))
		if !ok || target.Escapes != want {
			t.Errorf("%s: escapes %t, want %t", written, target.Escapes, want)
		}
	}
}
