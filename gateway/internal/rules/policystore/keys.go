package policystore

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"

	"code.dny.dev/ssrf"
)

const (
	dialTimeout         = 10 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	fetchTimeout        = 10 * time.Second
	idleConnTimeout     = 90 * time.Second
	maxHeaderBytes      = 64 << 10
)

// newKeysClient returns the client that fetches the keys of tokens. Bundles are pushed over
// the network, so their URLs may only lead to public addresses and the allowed networks,
// without proxies and redirects.
func newKeysClient(allowed []netip.Prefix) *http.Client {
	return &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout, Control: guardian(allowed).Safe}).DialContext,
			TLSHandshakeTimeout: tlsHandshakeTimeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeaderBytes, IdleConnTimeout: idleConnTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// guardian checks addresses after name resolution, so that no name leads around it.
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
