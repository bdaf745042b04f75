// Package guarded protects against SSRF: its clients connect only to public addresses and to
// allowed networks, without proxies or redirects.
package guarded

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

// Bounds of connections. The context bounds the time of a request.
const (
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
	maxIdleConns   = 16
)

// guardian returns the check of each address before it is dialed, after name resolution, so
// that no name leads around it.
func guardian(allowed []netip.Prefix) *ssrf.Guardian {
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

// Allows reports whether an address may be dialled.
func Allows(addr netip.Addr, allowed []netip.Prefix) bool {
	return guardian(allowed).SafeAddr(addr) == nil
}

// Refused reports whether an error says that an address may not be dialled.
func Refused(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedNetwork)
}

// NewDialer returns a dialer for public addresses and allowed networks only.
func NewDialer(allowed []netip.Prefix, timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: guardian(allowed).Safe}
}

// NewClient returns a client that dials with the dialer. It ignores proxies in the
// environment: a proxy would dial in its place, unguarded.
func NewClient(d *net.Dialer) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: d.Timeout,
			ForceAttemptHTTP2: true, DisableCompression: true, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: maxIdleConns, MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
