// Package natskit connects services to NATS: connections that outlive any
// outage, the streams and buckets of the contract, and an embedded server with
// JetStream.
//
// It knows the names in package schemas, and nothing of what is stored there.
package natskit

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNotConnected is why nothing can be asked while no server is reached. The
// client's own error would speak of a full buffer, since there is none.
var ErrNotConnected = errors.New("not connected to NATS")

// Connect returns a connection that is tried again for ever, so that services
// and servers can start in any order. It errs only on a malformed URL or
// unreadable credentials. While the server is away, what is sent fails at once
// instead of being buffered: a late check is worth nothing.
func Connect(url, name string, log *slog.Logger, opts ...nats.Option) (*nats.Conn, error) {
	all := append([]nats.Option{
		nats.Name(name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(10 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost, trying again", "connection", name, "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("NATS connection is back", "connection", name, "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS reported an error", "connection", name, "error", err)
		}),
	}, opts...)
	nc, err := nats.Connect(url, all...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at --nats: %w", err)
	}
	return nc, nil
}

// Flush waits until the server has had what was sent, at most for timeout.
// Where the connection is lost, there is nobody to wait for.
func Flush(nc *nats.Conn, timeout time.Duration) {
	if nc.IsConnected() {
		_ = nc.FlushTimeout(timeout) // a server that does not answer has been told
	}
}

// CatchUp is Flush that then waits for what the server had sent by that time,
// such as requests to a subscription that has just ended, to be handled, again
// at most for timeout.
func CatchUp(nc *nats.Conn, timeout time.Duration) {
	Flush(nc, timeout)
	handled := make(chan struct{})
	if nc.Barrier(func() { close(handled) }) != nil {
		return
	}
	select {
	case <-handled:
	case <-time.After(timeout):
	}
}
