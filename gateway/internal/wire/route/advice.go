package route

import (
	"net/http"
	"slices"
	"strings"
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
	case isGoogleMethod(path) && first == "models":
		return "the base URL lacks /v1beta; it must be http://" + r.Host + "/v1beta for this client"
	case first == "messages" || isOpenAI(first):
		return "the base URL lacks /v1; it must be http://" + r.Host + "/v1 for this client"
	}
	return ""
}

// isTwice reports whether the rest of a path begins with its version again.
func isTwice(version, rest string) bool { return strings.HasPrefix(rest, version+"/") }

// isOpenAI reports whether a path of OpenAI's API has the segment after its version.
func isOpenAI(segment string) bool {
	return slices.Contains([]string{"chat", "responses", "completions", "embeddings", "models", "files", "images", "audio", "batches", "moderations", "conversations", "assistants", "threads", "vector_stores"}, segment)
}
