package webhook

import (
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

// Guard returns what decides about each address before it is dialled: public
// ones may be, others only inside the allowed networks. It sees addresses
// after name resolution, so that a name can't lead around it.
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

// newTransport uses no proxy, whatever the environment says: a proxy would
// dial in our place, and unguarded.
func newTransport(allowed []netip.Prefix) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: Guard(allowed).Safe}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdleConns,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}
