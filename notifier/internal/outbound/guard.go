package outbound

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

// Bounds of one connection. The time for a whole attempt is its context's.
const (
	dialTimeout    = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
	maxIdleConns   = 16
)

// Guard returns the check of each address before it is dialled: public ones are allowed,
// others only inside the given networks. It sees addresses after name resolution, so a
// name cannot lead around it.
func Guard(allowed []netip.Prefix) *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, p := range allowed {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
}

// Dialer opens connections to guarded addresses.
type Dialer struct {
	net net.Dialer
}

// NewDialer returns a dialer that may reach the allowed networks besides public ones.
func NewDialer(allowed []netip.Prefix) *Dialer {
	return &Dialer{net.Dialer{Timeout: dialTimeout, Control: Guard(allowed).Safe}}
}

// Resolve makes the dialer look names up with a resolver of the caller's.
func (d *Dialer) Resolve(r *net.Resolver) { d.net.Resolver = r }

// Dial opens a connection. The address is a host, which is resolved, and a port.
func (d *Dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.net.DialContext(ctx, network, addr)
}

// newTransport uses no proxy, whatever the environment says: a proxy would dial in our
// place, and unguarded.
func newTransport(d *Dialer) *http.Transport {
	return &http.Transport{
		DialContext:            d.Dial,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdleConns,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}
