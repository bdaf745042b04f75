package route

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// KeyHeaders are the headers in which providers look for keys.
var KeyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// keyOwner returns the upstream whose keys look like the request's; nil if that is not
// certain.
func keyOwner(r *http.Request) *provider.Upstream {
	if r.URL.RawQuery != "" {
		if owner := ownerOf("", r.URL.Query().Get("key")); owner != nil {
			return owner
		}
	}
	for _, name := range KeyHeaders {
		if owner := ownerOf(name, r.Header.Get(name)); owner != nil {
			return owner
		}
	}
	return nil
}

// ownerOf returns the upstream of the key in a header, by the header's name or the key's
// beginning; nil if neither identifies it.
func ownerOf(header, value string) *provider.Upstream {
	_, key, found := strings.Cut(value, " ")
	if !found {
		key = value
	}
	if key == "" {
		return nil
	}
	for _, u := range formats.Upstreams {
		if u.Owns != nil && u.Owns(header, key) {
			return u
		}
	}
	return nil
}

// Foreign returns the headers with a key of another provider than the one at an address.
// An address that is not a provider's own may take any key.
func Foreign(host string, h http.Header) (names []string) {
	if !slices.ContainsFunc(formats.Upstreams, func(u *provider.Upstream) bool { return u.At(host) }) {
		return nil
	}
	for _, name := range KeyHeaders {
		if owner := ownerOf(name, h.Get(name)); owner != nil && !owner.At(host) {
			names = append(names, name)
		}
	}
	return names
}

// PutKey puts the upstream's own key into a request, in the place where the upstream or
// else the request's format has it. Sent are the headers with the client's own key.
func (t Target) PutKey(out *http.Request, sent http.Header, key string) {
	if u := upstreamOf(t.Upstream); u != nil && u.PutKey != nil {
		u.PutKey(out, sent, key)
		return
	}
	t.Format.PutKey(out, sent, key)
}

// System returns the name of the target's provider in traces.
func (t Target) System() string {
	if u := upstreamOf(t.Upstream); u != nil {
		return cmp.Or(u.System, u.Name)
	}
	return t.Upstream
}
