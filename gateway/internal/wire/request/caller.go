package request

import (
	"hash/maphash"
	"net"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/schemas/kit/access"
)

// seed makes callers unpredictable, so that nobody can choose a key that is taken for
// another one.
var seed = maphash.MakeSeed()

// CallerOf returns the caller of a request as its headers tell: by Unloop's own key, else by
// the provider's, else by the address that it came from.
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
