package freeport

import (
	"net"
	"testing"
)

func TestNobodyListensOnAFreeAddress(t *testing.T) {
	t.Parallel()
	addr, err := Addr()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if port := ln.Addr().(*net.TCPAddr).Port; port < 10_000 || port >= 30_000 {
		t.Errorf("port %d, want one that the system does not give out by itself", port)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
}
