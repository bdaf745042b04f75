package e2e

import (
	"net/http"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// Paths that providers share go to the provider whose method or key the request has.
func TestKeysGoToTheirProviderAlone(t *testing.T) {
	t.Parallel()
	upstreams, urls := map[string]served{}, map[string]string{}
	for _, name := range []string{"openai", "anthropic", "gemini", "vertex"} {
		upstreams[name] = serve(t, greeting)
		urls[name] = upstreams[name].url
	}
	url := start(t, "", func(c *system.Config) { c.Gateway.Upstream = urls }).URL()
	const contents = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	const messages = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	google := http.Header{"X-Goog-Api-Key": {"AIzaSyGoogle"}}
	for _, c := range []struct {
		call
		want string
	}{
		{call{http.MethodPost, "/v1/models/gemini-x:generateContent", contents, google}, "gemini"},
		{call{http.MethodPost, "/v1/models/gemini-x:generateContent?key=AIzaSyGoogle", contents, nil}, "gemini"},
		{call{http.MethodGet, "/v1/models", "", google}, "gemini"},
		{call{http.MethodPost, "/v1/projects/p/locations/us-central1/publishers/google/models/gemini-x:generateContent", contents, http.Header{"Authorization": {"Bearer ya29.x"}}}, "vertex"},
		{call{http.MethodPost, "/v1beta1/publishers/google/models/gemini-x:streamGenerateContent?alt=sse", contents, google}, "vertex"},
		{call{http.MethodPost, "/v1/chat/completions", messages, http.Header{"Authorization": {"Bearer sk-ant-x"}}}, "anthropic"},
		{call{http.MethodPost, "/v1/chat/completions", messages, http.Header{"Authorization": {"Bearer sk-x"}}}, "openai"},
	} {
		before := map[string]int{}
		for name, u := range upstreams {
			before[name] = len(u.Requests())
		}
		send(t, url, c.call)
		for name, u := range upstreams {
			if got := len(u.Requests()) - before[name]; (got == 1) != (name == c.want) {
				t.Errorf("%s %s: %d requests at %s, want it at %s", c.method, c.path, got, name, c.want)
			}
		}
	}
}
