package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminGrace bounds how long the admin port waits for requests in flight.
const adminGrace = 5 * time.Second

// NewRegistry returns a metrics registry with the process's own metrics.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Admin serves /healthz, /readyz and /metrics.
type Admin struct {
	listener net.Listener
	server   *http.Server
	ready    Readiness
}

// NewAdmin listens at addr for the admin port of the given services.
func NewAdmin(addr string, reg *prometheus.Registry, services ...Named) (*Admin, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at --admin %s: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", readyz(services))
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}))
	a := &Admin{listener: ln, server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}}
	a.ready.Set(nil)
	return a, nil
}

// Addr is the address it listens at.
func (a *Admin) Addr() string { return a.listener.Addr().String() }

// Readiness is always ready: it listens from NewAdmin on.
func (a *Admin) Readiness() *Readiness { return &a.ready }

// Run serves until the context ends.
func (a *Admin) Run(ctx context.Context) error {
	return ServeHTTP(ctx, a.server, a.listener, adminGrace)
}

// ServeHTTP serves until the context ends, then finishes what is in flight for
// at most grace and cuts off the rest.
func ServeHTTP(ctx context.Context, server *http.Server, ln net.Listener, grace time.Duration) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP at %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(timeout); err != nil {
		return errors.Join(fmt.Errorf("finish requests in flight: %w", err), server.Close())
	}
	return nil
}

// readyz answers 200 when all services are ready, else 503, with a line each.
func readyz(services []Named) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var lines strings.Builder
		status := http.StatusOK
		for _, s := range services {
			if err := s.Readiness().Err(); err != nil {
				status = http.StatusServiceUnavailable
				fmt.Fprintf(&lines, "%s: %v\n", s.Name, err)
			} else {
				fmt.Fprintf(&lines, "%s: ready\n", s.Name)
			}
		}
		w.WriteHeader(status)
		fmt.Fprint(w, lines.String())
	}
}
