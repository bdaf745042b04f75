package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/unloop/unloop/schemas/kit/guarded"
)

// ParseURL reads the address of an HTTP endpoint. Errors do not quote it, because it may
// hold credentials.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("is no URL of an HTTP endpoint; write it like https://example.com/hooks/unloop")
	}
	return u, nil
}

// ParseNetwork reads a network. An address without a length is a network of its own.
func ParseNetwork(text string) (netip.Prefix, error) {
	text = strings.TrimSpace(text)
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return addr.Prefix(addr.BitLen())
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is no network; write it like 10.0.0.0/8 or fd00::/8", text)
	}
	return prefix, nil
}

// CheckHost returns an error for a host that the guard would refuse at each delivery, if
// that is known without resolving it.
func CheckHost(host string, allowed []netip.Prefix) error {
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil //nolint:nilerr // a name: the guard sees what it resolves to
	}
	addr = addr.Unmap().WithZone("")
	if guarded.Allows(addr, allowed) {
		return nil
	}
	return fmt.Errorf("leads to the private address %s; allow it with --allow-cidr %s/%d", addr, addr, addr.BitLen())
}
