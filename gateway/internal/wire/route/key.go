package route

import (
	"net/http"
	"strings"
)

// KeyHeaders are the headers in which providers look for keys.
var KeyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// keyOwner returns the provider whose keys look like the request's; "" if that is not
// certain.
func keyOwner(r *http.Request) string {
	if r.URL.RawQuery != "" && isGoogleKey(r.URL.Query().Get("key")) {
		return Gemini
	}
	for _, name := range KeyHeaders {
		if owner := ownerOf(name, r.Header.Get(name)); owner == Gemini || owner == Anthropic {
			return owner
		}
	}
	return ""
}

// ownerOf returns the provider of the key in a header, by the header's name or the key's
// beginning; "" if neither identifies it.
func ownerOf(header, value string) string {
	_, key, found := strings.Cut(value, " ")
	if !found {
		key = value
	}
	switch {
	case key == "":
		return ""
	case strings.HasPrefix(key, "sk-ant-"):
		return Anthropic
	case strings.HasPrefix(key, "sk-proj-"), strings.HasPrefix(key, "sk-svcacct-"), strings.HasPrefix(key, "sk-admin-"):
		return OpenAI
	case header == "X-Goog-Api-Key", isGoogleKey(key):
		return Gemini
	}
	return ""
}

// isGoogleKey reports whether a key begins as Google's API keys and access tokens do.
func isGoogleKey(key string) bool {
	return strings.HasPrefix(key, "AIza") || strings.HasPrefix(key, "AQ.") || strings.HasPrefix(key, "ya29.")
}

// Foreign returns the headers with a key of another provider than the one at an address.
// An address that is not a provider's own may take any key.
func Foreign(host string, h http.Header) (names []string) {
	var own string
	switch {
	case host == "api.openai.com":
		own = OpenAI
	case host == "api.anthropic.com":
		own = Anthropic
	case strings.HasSuffix(host, ".googleapis.com"):
		own = Gemini
	default:
		return nil
	}
	for _, name := range KeyHeaders {
		if owner := ownerOf(name, h.Get(name)); owner != "" && owner != own {
			names = append(names, name)
		}
	}
	return names
}
