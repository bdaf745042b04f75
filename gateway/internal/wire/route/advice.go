package route

import (
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// Misdirected returns the mend for a request whose base URL lacks the API's version or has
// it twice; "" for others.
func Misdirected(r *http.Request) string {
	path := r.URL.EscapedPath()
	first, after, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case isVersion(first) && isTwice(first, after):
		return "the path begins with /" + first + " twice, because the client adds it by itself; its base URL must be http://" + r.Host
	case isVersion(first):
		return ""
	}
	for _, u := range slices.Backward(formats.Upstreams) { // OpenAI's paths, the widest, come first
		if u.Lacks != nil && u.Lacks(unescaped(strings.TrimPrefix(path, "/"))) {
			version := "/" + u.Versions[0]
			return "the base URL lacks " + version + "; it must be http://" + r.Host + version + " for this client"
		}
	}
	return ""
}

// isTwice reports whether the rest of a path begins with its version again.
func isTwice(version, rest string) bool { return strings.HasPrefix(rest, version+"/") }
