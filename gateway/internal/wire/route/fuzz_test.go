package route

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
)

// FuzzRoute routes whatever path a client may send: what is forwarded stays under
// the upstream's base path, and is known by a clean path.
func FuzzRoute(f *testing.F) {
	table, err := NewTable(map[string]string{"azure": "https://azure.example/base", "default": "https://other.example"})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"/v1/chat/completions", "/azure/../x", "/azure/%2e%2e%2fx", "//openai//v1/./x/", "/azure/a/%252e%252e/..", "/%zz", "*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		target, ok := table.Route(&http.Request{Method: http.MethodPost, URL: u, Header: http.Header{}})
		if !ok || target.Escapes {
			return
		}
		if target.Upstream == "azure" && !strings.HasPrefix(path.Clean(target.URL.Path)+"/", "/base/") {
			t.Errorf("%q is forwarded as %q", text, target.URL.Path)
		}
		for _, p := range target.Paths {
			if p != path.Clean(p) || !strings.HasPrefix(p, "/") {
				t.Errorf("%q is known as %q", text, p)
			}
		}
	})
}
