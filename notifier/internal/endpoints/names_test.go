package endpoints

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
)

// names returns a resolver in which every name has one address, and what changes that.
func names(t *testing.T, addr string) (*net.Resolver, func(string)) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var current atomic.Pointer[netip.Addr]
	change := func(text string) {
		a := netip.MustParseAddr(text)
		current.Store(&a)
	}
	change(addr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(answerTo(buf[:n], *current.Load()), from)
		}
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}, change
}

// answerTo returns the answer to a DNS query for A or AAAA (RFC 1035, section 4).
func answerTo(query []byte, addr netip.Addr) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	question := query[12 : end+5]
	asked := binary.BigEndian.Uint16(query[end+1:])
	kind := uint16(28)
	if addr.Is4() {
		kind = 1
	}
	answers := uint16(0)
	if asked == kind {
		answers = 1
	}
	out := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, byte(answers), 0, 0, 0, 0}, question...)
	if answers == 1 {
		out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(addr.BitLen()/8))
		out = append(out, addr.AsSlice()...)
	}
	return out
}
