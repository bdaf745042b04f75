// Package natskit connects services to NATS: connections that survive outages, requests
// and their answers, the streams and buckets of the contract, and an embedded server
// with JetStream.
//
// It knows the names in package schemas, and not what is stored under them.
package natskit

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// dialTimeout bounds the look-up and the dialling of a server, during which the
	// client holds its lock.
	dialTimeout = 2 * time.Second
	// pingInterval is the pause between the client's pings. A server that leaves
	// maxPings of them unanswered is disconnected.
	pingInterval, maxPings = time.Second, 2
	// flushTimeout bounds one write to the server's socket, during which the client
	// holds its lock.
	flushTimeout = time.Second
)

// Connect returns a connection that is retried for ever, so that services and servers
// can start in any order. It fails only on a malformed URL or unreadable credentials.
// While no server is connected, sending fails at once instead of buffering: a late check
// is of no use.
func Connect(url, name string, log *slog.Logger, opts ...nats.Option) (*Conn, error) {
	opts = append([]nats.Option{WithLocalToken(url)}, opts...)
	return start(name, log, func(handlers ...nats.Option) (*nats.Conn, error) {
		all := append(append(options(name), handlers...), opts...)
		nc, err := nats.Connect(url, all...)
		if err != nil {
			return nil, fmt.Errorf("connect to NATS at --nats: %w", withoutURL(err))
		}
		return nc, nil
	})
}

func options(name string) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(maxPings),
		nats.FlusherTimeout(flushTimeout),
		nats.ReconnectOnFlusherError(),
		nats.Timeout(dialTimeout),
		nats.SkipHostLookup(),
		nats.SetCustomDialer(dialer{}),
	}
}

// dialer looks names up and dials within one deadline.
type dialer struct{}

// Dial implements nats.CustomDialer.
func (dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
