package forward

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

func TestKeyOfTheUpstreamReplacesThatOfTheClient(t *testing.T) {
	t.Parallel()
	all := http.Header{"Authorization": {"Bearer client"}, "X-Api-Key": {"client"}, "X-Goog-Api-Key": {"client"}, "X-Other": {"kept"}}
	for name, c := range map[string]struct {
		key    string
		target route.Target
		in     http.Header
		query  string
		want   http.Header
		left   string
	}{
		"OpenAI":    {"k", route.Target{Upstream: "one", Format: chat.Format}, all, "a=1", http.Header{"Authorization": {"Bearer k"}, "X-Other": {"kept"}}, "a=1"},
		"Azure":     {"k", route.Target{Upstream: "one", Format: chat.Format}, http.Header{"Api-Key": {"client"}}, "", http.Header{"Api-Key": {"k"}}, ""},
		"Anthropic": {"k", route.Target{Upstream: "one", Format: anthropic.Format}, all, "", http.Header{"X-Api-Key": {"k"}, "X-Other": {"kept"}}, ""},
		"Gemini":    {"k", route.Target{Upstream: "one", Format: gemini.Format}, all, "a=1&k%65y=client&alt=sse", http.Header{"X-Goog-Api-Key": {"k"}, "X-Other": {"kept"}}, "a=1&alt=sse"},
		"Vertex": {
			"AIzak", route.Target{Upstream: gemini.Vertex.Name, Format: gemini.Format}, all, "key=client", http.Header{"X-Goog-Api-Key": {"AIzak"}, "X-Other": {"kept"}}, "",
		},
		"Vertex by token": {"ya29", route.Target{Upstream: gemini.Vertex.Name}, http.Header{}, "", http.Header{"Authorization": {"Bearer ya29"}}, ""},
		"no key":          {"", route.Target{Upstream: "one"}, http.Header{"Authorization": {"Bearer client"}}, "key=client", http.Header{"Authorization": {"Bearer client"}}, "key=client"},
		"another provider's key": {
			"", route.Target{Upstream: "one"}, http.Header{"X-Api-Key": {"sk-ant-client"}}, "", http.Header{}, "",
		},
	} {
		c.target.URL = &url.URL{Scheme: "https", Host: "api.openai.com", Path: "/", RawQuery: c.query}
		out := &http.Request{Header: c.in.Clone(), URL: c.target.URL}
		keys := Keys{}
		if c.key != "" {
			keys[c.target.Upstream] = c.key
		}
		keys.put(out, c.target)
		if diff := cmp.Diff(c.want, out.Header); diff != "" || out.URL.RawQuery != c.left {
			t.Errorf("%s: query %q, want %q; headers (-want +got):\n%s", name, out.URL.RawQuery, c.left, diff)
		}
		if c.target.URL.RawQuery != c.query {
			t.Errorf("%s: the target was changed", name)
		}
	}
}

func TestKeysAreReadAndNeverTold(t *testing.T) {
	t.Parallel()
	table, err := route.NewTable(map[string]string{"one": "http://one", "two": "http://two"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	for file, key := range map[string]string{good: "sk-good\n", bad: "sk-b\x01ad"} {
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := ReadKeys(map[string]string{"one": "file:" + good}, table)
	if diff := cmp.Diff(Keys{"one": "sk-good"}, keys); err != nil || diff != "" {
		t.Errorf("%v; keys (-want +got):\n%s", err, diff)
	}
	_, err = ReadKeys(map[string]string{"one": "file:" + bad, "two": "file:" + dir + "/none", "three": "file:" + good}, table)
	for _, fault := range []string{"one: the key has characters", "two: ", "three: there is no upstream"} {
		if err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "sk-") {
			t.Errorf("faults are %v, want one with %q", err, fault)
		}
	}
}

// Where the gateway puts in an upstream's key, that of its client stays here, wherever the
// client sent it.
func TestNoKeyOfAClientGoesWithAnUpstreamsOwn(t *testing.T) {
	t.Parallel()
	for _, format := range []*provider.Format{chat.Format, plain.Format, anthropic.Format, gemini.Format} {
		out := httptest.NewRequest(http.MethodGet, "http://upstream/v1/models?key=own&a=1", nil)
		Keys{"u": "theirs"}.put(out, route.Target{Upstream: "u", Format: format, URL: out.URL})
		if out.URL.RawQuery != "a=1" {
			t.Errorf("format %s: query %q", format.Name(), out.URL.RawQuery)
		}
	}
}
