package access

import (
	"cmp"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func pages(t *testing.T, addr string, allowed Allowed) *Pages {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPages(at, allowed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPagesAreToldFromPrograms(t *testing.T) {
	t.Parallel()
	const local, anywhere = "127.0.0.1:8080", "0.0.0.0:8080"
	allowed := Allowed{AllowHost: []string{"gateway.internal"}, AllowOrigin: []string{"https://app.example"}}
	for name, c := range map[string]struct {
		listen, method, host string
		header               map[string]string
		allowed              Allowed
		want                 string
	}{
		"a program":                        {listen: local, host: "127.0.0.1:8080"},
		"by name":                          {listen: local, host: "LocalHost.:8080"},
		"IPv6":                             {listen: "[::1]:8080", host: "[::1]:8080"},
		"HTTP/1.0":                         {listen: local, host: ""},
		"a rebound name":                   {listen: local, host: "evil.example:8080", want: "foreign_host"},
		"a rebound name, same origin":      {listen: local, host: "evil.example", header: map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}, want: "foreign_host"},
		"another address":                  {listen: local, host: "192.0.2.1", want: "foreign_host"},
		"a name that begins alike":         {listen: local, host: "localhost.evil.example", want: "foreign_host"},
		"an allowed name":                  {listen: local, host: "gateway.internal:8080", allowed: allowed},
		"elsewhere any name":               {listen: anywhere, host: "gateway.example"},
		"elsewhere with names":             {listen: anywhere, host: "gateway.example", allowed: allowed, want: "foreign_host"},
		"elsewhere with names, by address": {listen: anywhere, host: "10.0.0.7:8080", allowed: allowed},
		"a text/plain POST":                {listen: local, host: "127.0.0.1", method: http.MethodPost, header: map[string]string{"Origin": "https://evil.example", "Content-Type": "text/plain"}, want: "foreign_origin"},
		"a page without an origin":         {listen: local, host: "127.0.0.1", header: map[string]string{"Origin": "null"}, want: "foreign_origin"},
		"another port of this machine":     {listen: local, host: "127.0.0.1:8080", header: map[string]string{"Origin": "http://127.0.0.1:3000"}, want: "foreign_origin"},
		"the same origin":                  {listen: local, host: "127.0.0.1:8080", header: map[string]string{"Origin": "http://127.0.0.1:8080"}},
		"an image":                         {listen: local, host: "127.0.0.1", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, want: "foreign_origin"},
		"a page of the same site":          {listen: local, host: "127.0.0.1", header: map[string]string{"Sec-Fetch-Site": "same-site"}, want: "foreign_origin"},
		"an address that was typed":        {listen: local, host: "127.0.0.1", header: map[string]string{"Sec-Fetch-Site": "none"}},
		"a preflight":                      {listen: local, host: "127.0.0.1", method: http.MethodOptions, header: map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, want: "foreign_origin"},
		"a preflight without origin":       {listen: local, host: "127.0.0.1", method: http.MethodOptions, header: map[string]string{"Access-Control-Request-Method": "POST"}, want: "foreign_origin"},
		"a WebSocket":                      {listen: local, host: "127.0.0.1", header: map[string]string{"Origin": "https://evil.example", "Upgrade": "websocket", "Connection": "Upgrade"}, want: "foreign_origin"},
		"elsewhere a foreign page":         {listen: anywhere, host: "gateway.example", header: map[string]string{"Origin": "https://evil.example"}, want: "foreign_origin"},
		"an allowed page":                  {listen: local, host: "127.0.0.1", allowed: allowed, header: map[string]string{"Origin": "https://APP.example", "Sec-Fetch-Site": "cross-site"}},
		"an allowed page's rebound name":   {listen: local, host: "evil.example", allowed: allowed, header: map[string]string{"Origin": "https://app.example"}, want: "foreign_host"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if c.method != "" {
			r.Method = c.method
		}
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		got := ""
		if fault := pages(t, c.listen, c.allowed).Check(r); fault != nil {
			got = fault.Code
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A click on a link in a chat or an alert opens the dashboard. No page can have a browser
// load anything else, or the dashboard in a frame, or with a name of its own.
func TestLinksToTheStartPageWork(t *testing.T) {
	t.Parallel()
	click := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"}
	for name, c := range map[string]struct {
		method, url  string
		header, more string
		want         int
	}{
		"a click":             {url: "http://127.0.0.1:1/", want: http.StatusOK},
		"a click with a loop": {url: "http://127.0.0.1:1/?loop=abc", want: http.StatusOK},
		"the API":             {url: "http://127.0.0.1:1/api/v1/loops", want: http.StatusForbidden},
		"metrics":             {url: "http://127.0.0.1:1/metrics", want: http.StatusForbidden},
		"a form":              {method: http.MethodPost, url: "http://127.0.0.1:1/", want: http.StatusForbidden},
		"a frame":             {url: "http://127.0.0.1:1/", header: "Sec-Fetch-Dest", more: "iframe", want: http.StatusForbidden},
		"a script":            {url: "http://127.0.0.1:1/", header: "Sec-Fetch-Mode", more: "no-cors", want: http.StatusForbidden},
		"with an origin":      {url: "http://127.0.0.1:1/", header: "Origin", more: "https://evil.example", want: http.StatusForbidden},
		"a rebound name":      {url: "http://evil.example/", want: http.StatusForbidden},
	} {
		r := httptest.NewRequest(cmp.Or(c.method, http.MethodGet), c.url, nil)
		for k, v := range click {
			r.Header.Set(k, v)
		}
		if c.header != "" {
			r.Header.Set(c.header, c.more)
		}
		w := httptest.NewRecorder()
		ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		if pages(t, "127.0.0.1:1", Allowed{}).Protect(ok).ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
	}
}

func TestTwoOriginsAreNone(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
	r.Header["Origin"] = []string{"https://app.example", "https://evil.example"}
	if pages(t, "127.0.0.1:1", Allowed{AllowOrigin: []string{"https://app.example"}}).Check(r) == nil {
		t.Error("a second origin passed behind an allowed one")
	}
}

func TestAllowedPagesMayReadAnswers(t *testing.T) {
	t.Parallel()
	p := pages(t, "127.0.0.1:1", Allowed{AllowOrigin: []string{"https://app.example"}})
	r := httptest.NewRequest(http.MethodOptions, "http://127.0.0.1/v1/x", nil)
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization")
	w := httptest.NewRecorder()
	p.Protect(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") != "https://app.example" || w.Header().Get("Access-Control-Allow-Headers") != "authorization" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
}

// Editors and desktop programs have schemes of their own, whose hosts may change at
// each start. They are told how to be let in.
func TestProgramsThatShowPagesCanBeAllowed(t *testing.T) {
	t.Parallel()
	post := func(origin string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
		r.Header.Set("Origin", origin)
		return r
	}
	open := pages(t, "127.0.0.1:1", Allowed{AllowOrigin: []string{"vscode-webview://*", "file://", "app://obsidian.md"}})
	for origin, want := range map[string]bool{
		"vscode-webview://1a2b3c": true, "VSCODE-webview://x": true, "file://": true, "app://obsidian.md": true,
		"app://other": false, "null": false, "https://vscode-webview://x": false, "https://evil.example": false, "vscode-webview.evil://x": false,
	} {
		if fault := open.Check(post(origin)); (fault == nil) != want {
			t.Errorf("%s: %v", origin, fault)
		}
	}
	for origin, want := range map[string]string{
		"vscode-webview://1a2b": "--allow-origin vscode-webview://1a2b", "https://App.example": "--allow-origin https://app.example", "file://": "--allow-origin file://",
		"null": "can't be allowed", "x y\n": "allow the origin", "https://" + strings.Repeat("a", 200): "allow the origin with",
	} {
		if fault := pages(t, "127.0.0.1:1", Allowed{}).Check(post(origin)); fault == nil || !strings.Contains(fault.Message, want) {
			t.Errorf("%s: %v, want %q in it", origin, fault, want)
		}
	}
	if _, err := NewPages(&net.TCPAddr{}, Allowed{AllowOrigin: []string{"https://*", "*://*", "://*", "https://*.example"}}); err == nil || strings.Count(err.Error(), "--allow-origin") != 4 {
		t.Errorf("all web sites can be allowed: %v", err)
	}
}

func TestExceptionsForPagesMustBeReadable(t *testing.T) {
	t.Parallel()
	_, err := NewPages(&net.TCPAddr{}, Allowed{AllowHost: []string{"*.example", "http://x"}, AllowOrigin: []string{"*", "null", "app.example", "https://app.example/"}})
	for _, want := range []string{"*.example", "http://x", "--allow-origin *:", "null", "origin app.example", "app.example/"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": false, "192.0.2.1": false, "localhost.example": false, "": false,
	} {
		if got := Loopback(host); got != want {
			t.Errorf("%q is this machine alone: %v", host, got)
		}
	}
}
