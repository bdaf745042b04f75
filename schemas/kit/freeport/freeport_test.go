package freeport

import (
	"net"
	"testing"
)

func TestAReservedAddressIsFreeAndGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for range 100 {
		addr, release, err := Reserve()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		if given[addr] {
			t.Errorf("%s was given twice", addr)
		}
		given[addr] = true
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if port := ln.Addr().(*net.TCPAddr).Port; port < firstPort || port >= firstPort+ports {
			t.Errorf("port %d, want one that the system does not give out by itself", port)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}
