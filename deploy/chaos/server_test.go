package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serverRole is the first argument of this program as a server of a cluster.
const serverRole = "nats-server"

// lameDuck is the time over which a server in lame duck mode closes its clients, after
// lameDuckGrace. Servers have 2 minutes and 10 s by default.
const lameDuck, lameDuckGrace = 2 * time.Second, 200 * time.Millisecond

var errServer = errors.New("NATS server is not ready")

// serverConfig configures a server by its name, its addresses and the routes of all.
const serverConfig = `server_name: %s
listen: %q
jetstream: {store_dir: %q}
cluster: {name: chaos, listen: %q, routes: [%s]}`

// serve runs one NATS server of a cluster until the context ends. Behind its role, its arguments
// are its configuration and the address for monitoring.
func serve(ctx context.Context, args []string, _ io.Writer) error {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(strings.Join(args[1:], "\nhttp: ")); err != nil {
		return fmt.Errorf("configure a NATS server: %w", err)
	}
	opts.LameDuckDuration, opts.LameDuckGracePeriod = lameDuck, lameDuckGrace
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("make a NATS server: %w", err)
	}
	srv.ConfigureLogger()
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(startWithin) {
		return errServer
	}
	ended := make(chan struct{})
	go func() { defer close(ended); srv.WaitForShutdown() }()
	select {
	case <-ctx.Done():
	case <-ended: // after SIGUSR2, in lame duck mode
	}
	return nil
}
