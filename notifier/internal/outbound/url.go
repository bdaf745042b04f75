package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/unloop/unloop/schemas/kit/guarded"
)

// ParseURL parses the address of an HTTP endpoint. Errors do not quote it, because it may
// contain credentials.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("is no URL of an HTTP endpoint; write it like https://example.com/hooks/unloop")
	}
	return u, nil
}

// CheckHost returns an error for an address, or localhost, to which no delivery would be
// allowed. It does not resolve names.
func CheckHost(host string, allowed []netip.Prefix) error {
	if host == "localhost" {
		host = "127.0.0.1"
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil //nolint:nilerr // a name: its addresses are checked when it is dialled
	}
	addr = addr.Unmap().WithZone("")
	if guarded.Allows(addr, allowed) {
		return nil
	}
	return fmt.Errorf("leads to the private address %s; allow it with --allow-cidr %s/%d", addr, addr, addr.BitLen())
}
