package request

import (
	"hash/maphash"
	"net"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/schemas/kit/access"
)

// seed is secret, so that nobody can construct a key that collides with another one.
var seed = maphash.MakeSeed()

// CallerOf returns the caller of a request, identified by Unloop's own key, else by the provider's
// key, else by the client's address.
func CallerOf(r *http.Request) fair.Caller {
	key := r.Header.Get(access.Header)
	if key == "" {
		key = formats.HTTP.Key(r)
	}
	if key == "" {
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			key = "\x00" + host // no header can hold this byte
		}
	}
	return fair.Caller(maphash.String(seed, key))
}
