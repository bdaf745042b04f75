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
