// Package freeport reserves loopback addresses for servers that tests and benchmarks start,
// or restart, later.
package freeport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

const (
	// firstPort and ports are the range of Reserve. It is below 32768, from where on systems
	// assign ephemeral ports.
	firstPort, ports = 10_000, 20_000
	// step spreads the first ports of processes that run at the same time.
	step = 37
)

// tried counts the ports that this process has tried.
var tried atomic.Int64

// errNoPort means that all ports are taken.
var errNoPort = errors.New("no port is free")

// kept holds the reservations of Addr: the garbage collector closes sockets that nobody holds.
var kept sync.Map

// Addr is Reserve for an address that this process keeps until it ends.
func Addr() (string, error) {
	addr, release, err := Reserve()
	kept.Store(addr, release)
	return addr, err
}

// Reserve returns a loopback address for a server that listens later, or again after a
// restart. Until release is called, no other caller of Reserve gets it, in any process. The
// reservation is a UDP socket on the same port: a TCP listener would be in the server's way.
func Reserve() (addr string, release func(), err error) {
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
