package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, path, tag string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("If-None-Match", tag)
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w
}

// The page runs scripts of its own port alone, is in no frame, and is not cached blindly.
func TestThePageIsServedWithAStrictPolicy(t *testing.T) {
	t.Parallel()
	w := get(t, "/", "")
	h := w.Header()
	if w.Code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") || !strings.Contains(w.Body.String(), "<title>Unloop</title>") {
		t.Fatalf("status %d, %v", w.Code, h)
	}
	for name, part := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
	} {
		if !strings.Contains(h.Get(name), part) {
			t.Errorf("%s: %s, want %s", name, h.Get(name), part)
		}
	}
	for _, part := range []string{"frame-ancestors 'none'", "require-trusted-types-for 'script'", "form-action 'none'"} {
		if !strings.Contains(h.Get("Content-Security-Policy"), part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
	if again := get(t, "/", h.Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("again: %d with %d bytes", again.Code, again.Body.Len())
	}
	if other := get(t, "/nothing", ""); other.Code != http.StatusNotFound {
		t.Errorf("another path: %d", other.Code)
	}
}

var (
	reference = regexp.MustCompile(`(?:src|href)="(/dashboard/[^"]+)"`)
	imported  = regexp.MustCompile(`from "\./([^"]+)"`)
	forbidden = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?://(?:[^w]|w[^w])`)
)

// Everything that the page asks for is served, no file loads from elsewhere, and none
// makes markup of text.
func TestThePageIsComplete(t *testing.T) {
	t.Parallel()
	wanted := []string{}
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		for _, m := range reference.FindAllSubmatch(text, -1) {
			wanted = append(wanted, string(m[1]))
		}
		for _, m := range imported.FindAllSubmatch(text, -1) {
			wanted = append(wanted, "/dashboard/"+string(m[1]))
		}
		if m := forbidden.Find(text); m != nil {
			t.Errorf("%s has %s", name, m)
		}
		if strings.HasSuffix(name, ".html") && regexp.MustCompile(`style=|\son[a-z]+=|<script[^>]*>[^<]`).Match(text) {
			t.Errorf("%s has a style or script that the policy forbids", name)
		}
		return err
	})
	if err != nil || len(wanted) < 8 {
		t.Fatalf("%d references, %v", len(wanted), err)
	}
	for _, path := range wanted {
		if w := get(t, path, ""); w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: %d with %d bytes", path, w.Code, w.Body.Len())
		}
	}
}
