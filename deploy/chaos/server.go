package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serverRole is the first argument of this program as a server of a cluster.
const serverRole = "nats-server"

// lameDuck is the time over which a server in lame duck mode closes its clients, after
// lameDuckGrace. Servers have 2 minutes and 10 s by default.
const lameDuck, lameDuckGrace = 2 * time.Second, 200 * time.Millisecond

var errServer = errors.New("NATS server is not ready")

// serve runs one NATS server of a cluster until the context ends.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(serverRole, flag.ContinueOnError)
	name := flags.String("name", "", "the server's name")
	store := flags.String("store", "", "where it stores")
	routes := flags.String("routes", "", "the routes of all servers")
	listen := flags.String("listen", "", "address for clients")
	route := flags.String("route", "", "address for the other servers")
	admin := flags.String("admin", "", "address for monitoring")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts := &server.Options{ServerName: *name, JetStream: true, StoreDir: *store, Routes: server.RoutesFromStr(*routes), LameDuckDuration: lameDuck, LameDuckGracePeriod: lameDuckGrace}
	opts.Cluster.Name = "chaos"
	for addr, to := range map[string]struct {
		host *string
		port *int
	}{*listen: {&opts.Host, &opts.Port}, *route: {&opts.Cluster.Host, &opts.Cluster.Port}, *admin: {&opts.HTTPHost, &opts.HTTPPort}} {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return fmt.Errorf("read address %s: %w", addr, err)
		}
		if *to.port, err = strconv.Atoi(port); err != nil {
			return fmt.Errorf("read address %s: %w", addr, err)
		}
		*to.host = host
	}
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
