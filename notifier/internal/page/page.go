// Package page serves the dashboard: a page, its style and its scripts, which read the
// API. Nothing is built, and nothing is fetched from elsewhere.
//
// It does not know what the API returns.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy: scripts, styles and requests of this origin only, and
// no frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the page at / and its files under /dashboard/.
func Handler() http.Handler {
	mux := http.NewServeMux()
	_ = fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error { // can't fail: the files are embedded
		if err != nil || entry.IsDir() {
			return err
		}
		at := "/dashboard/" + strings.TrimPrefix(name, "static/")
		if at == "/dashboard/index.html" {
			at = "/{$}"
		}
		mux.Handle("GET "+at, file(name))
		return nil
	})
	return mux
}

// file serves an embedded file, which browsers revalidate each time.
func file(name string) http.HandlerFunc {
	content, _ := static.ReadFile(name) // can't fail: it is embedded
	sum := sha256.Sum256(content)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".js" {
		kind = "text/javascript; charset=utf-8"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", kind)
		_, _ = w.Write(content) // the client may have left
	}
}
