// Package natskit connects services to NATS: connections that survive outages, requests
// and their answers, the streams and buckets of the contract, and an embedded server
// with JetStream.
//
// It knows the names in package schemas, and not what is stored under them.
package natskit

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// dialTimeout bounds DNS and dialing, during which the client holds its lock.
	dialTimeout = 2 * time.Second
	// pingInterval is the interval of the client's pings. It disconnects from a server that
	// leaves maxPings of them unanswered.
	pingInterval, maxPings = time.Second, 2
	// flushTimeout bounds one write to the server's socket, during which the client
	// holds its lock.
	flushTimeout = time.Second
)

// Connect is Settings.Connect without flags.
func Connect(url, name string, log *slog.Logger, opts ...nats.Option) (*Conn, error) {
	return Settings{}.Connect(url, name, log, opts...)
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

// dialer resolves names and dials within one deadline.
type dialer struct{}

// Dial implements nats.CustomDialer.
func (dialer) Dial(network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
