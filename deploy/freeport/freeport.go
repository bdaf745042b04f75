// Package freeport finds loopback addresses for processes that are started a moment later. It
// does not know what listens there.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Addr returns a loopback address on which nobody listens. Its port is below those that the
// system gives out by itself, to a connection of another process in between.
func Addr() (string, error) {
	var last error
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			return ln.Addr().String(), ln.Close()
		}
		last = err
	}
	return "", fmt.Errorf("find a free port: %w", last)
}
