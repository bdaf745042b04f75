package forward

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/kit/access"
)

// Keys are the provider keys that the gateway sets, by upstream.
type Keys map[string]string

// ReadKeys reads the keys from the places in --upstream-key. The error has every fault, and
// never a key.
func ReadKeys(places map[string]string, table *route.Table) (Keys, error) {
	keys := Keys{}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(places)) {
		key, err := access.Secret(places[name])
		switch {
		case !table.Known(name):
			err = errors.New("there is no upstream of this name; name it with --upstream")
		case err == nil && !isHeaderValue(key):
			err = errors.New("the key has characters that headers must not have")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("--upstream-key %s: %w", name, err))
		}
		keys[name] = key
	}
	return keys, errors.Join(faults...)
}

// isHeaderValue reports whether a string is a valid header value (RFC 9110, 5.5).
func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// put replaces the client's key by the upstream's, where the request's format has it. Without
// a key for the upstream, it removes keys of other providers.
func (k Keys) put(out *http.Request, t route.Target) {
	key := k[t.Upstream]
	if key == "" {
		for _, name := range route.Foreign(t.URL.Host, out.Header) {
			out.Header.Del(name)
		}
		return
	}
	sent := out.Header.Clone()
	out.URL = withoutKey(out.URL)
	for _, name := range route.KeyHeaders {
		out.Header.Del(name)
	}
	t.PutKey(out, sent, key)
}

// withoutKey returns a URL without the parameter key, in which Gemini's clients may send a
// key. The rest of the query stays as it is.
func withoutKey(u *url.URL) *url.URL {
	pairs := strings.Split(u.RawQuery, "&")
	kept := slices.DeleteFunc(pairs, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		decoded, err := url.QueryUnescape(name)
		return err == nil && decoded == "key"
	})
	clean := *u
	clean.RawQuery = strings.Join(kept, "&")
	return &clean
}
