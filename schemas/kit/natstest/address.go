package natstest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

const (
	// firstPort and ports are those that FreeAddr gives out: systems give out ports from
	// 32768 on by themselves, to every listener and connection that names none.
	firstPort, ports = 10_000, 20_000
	// step spreads the first ports of processes that run at the same time.
	step = 37
)

// tried counts the ports that this process has tried.
var tried atomic.Int64

// errNoPort says that all ports are taken.
var errNoPort = errors.New("no port is free")

// FreeAddr returns a loopback address for a server that listens later, or again after a
// restart: until the test ends, no other caller gets it, in this process or another one, and
// the system gives it to nobody.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	addr, release, err := ReserveAddr()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	return addr
}

// ReserveAddr is FreeAddr for an address that its caller releases.
func ReserveAddr() (addr string, release func(), err error) {
	for range ports {
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+(int64(os.Getpid())*step+tried.Add(1))%ports)
		mark, err := net.ListenPacket("udp4", addr) //nolint:noctx // it marks the port as taken, and waits for nothing
		if err != nil {
			continue // another caller's
		}
		ln, err := net.Listen("tcp4", addr)
		if err != nil {
			_ = mark.Close()
			continue
		}
		_ = ln.Close()
		return addr, func() { _ = mark.Close() }, nil
	}
	return "", nil, errNoPort
}
