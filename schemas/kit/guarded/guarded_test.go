package guarded

import (
	"net/netip"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, addr, allowed string
		ok                  bool
	}{
		{"public IPv4", "93.184.215.14", "", true},
		{"public IPv6", "2606:2800:21f:cb07::1", "", true},
		{"cloud metadata", "169.254.169.254", "", false},
		{"cloud metadata, IPv6", "fd00:ec2::254", "", false},
		{"private IPv4", "10.1.2.3", "", false},
		{"private IPv4, allowed", "10.1.2.3", "10.0.0.0/8", true},
		{"private IPv4, other network allowed", "10.1.2.3", "192.168.0.0/16", false},
		{"shared address space", "100.100.100.200", "", false},
		{"IPv6 loopback", "::1", "", false},
		{"IPv6 loopback, allowed", "::1", "::1/128", true},
		{"private IPv6", "fd00::1", "", false},
		{"link-local IPv6", "fe80::1", "", false},
		{"IPv4 loopback in IPv6", "::ffff:127.0.0.1", "", false},
		{"IPv4 loopback by NAT64", "64:ff9b::7f00:1", "", false},
		{"unspecified", "0.0.0.0", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var allowed []netip.Prefix
			if tt.allowed != "" {
				allowed = append(allowed, netip.MustParsePrefix(tt.allowed))
			}
			if got := Allows(netip.MustParseAddr(tt.addr), allowed); got != tt.ok {
				t.Errorf("got %v", got)
			}
		})
	}
}
