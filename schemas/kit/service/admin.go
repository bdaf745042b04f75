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

	"github.com/unloop/unloop/schemas/kit/access"
)

// maxScrapes bounds concurrent scrapes: each takes memory for all metrics. Further
// ones get 503.
const maxScrapes = 8

// adminGrace bounds how long the admin port waits for requests in flight.
const adminGrace = 5 * time.Second

// NewRegistry returns a metrics registry with the metrics of the process.
func NewRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	return reg
}

// Site is a service that serves a web site on the admin port.
type Site interface {
	// Site returns the handler of all paths except the port's own. refuse returns the reason
	// for which clients of the port may change nothing; "" if they may.
	Site(refuse func() string) http.Handler
}

// Paths is a service that serves further paths on the admin port.
type Paths interface {
	// Paths returns handlers by pattern, as http.ServeMux has them.
	Paths() map[string]http.Handler
}

// Admin serves /healthz, /readyz and /metrics, the site of one service, and further paths of
// all.
type Admin struct {
	listener net.Listener
	server   *http.Server
	// pages refuses web pages.
	pages *access.Pages
	// guarded is set by Require.
	guarded bool
	ready   Readiness
}

// NewAdmin listens at addr for the admin port of the given services.
func NewAdmin(addr string, pages access.Allowed, reg *prometheus.Registry, services ...Named) (*Admin, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at --admin %s: %w", addr, err)
	}
	a := &Admin{listener: ln}
	if a.pages, err = access.NewPages(ln.Addr(), pages); err != nil {
		return nil, errors.Join(fmt.Errorf("guard --admin: %w", err), ln.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", readyz(services))
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg, MaxRequestsInFlight: maxScrapes}))
	sited := false
	for _, s := range services {
		if site, ok := s.Service.(Site); ok && !sited {
			sited = true
			mux.Handle("/", site.Site(a.refusal))
		}
		if more, ok := s.Service.(Paths); ok {
			for pattern, handler := range more.Paths() {
				mux.Handle(pattern, handler)
			}
		}
	}
	a.server = &http.Server{Handler: inTime(directing(mux)), ReadHeaderTimeout: headerTimeout, IdleTimeout: adminIdleTimeout}
	a.ready.Set(nil)
	return a, nil
}

const (
	// headerTimeout and bodyTimeout are how long the headers and the body of a request
	// may take, and adminIdleTimeout how long a connection may wait for the next one.
	headerTimeout    = 10 * time.Second
	bodyTimeout      = 30 * time.Second
	adminIdleTimeout = 2 * time.Minute
)

// inTime bounds the time for the body of a request. Requests without one may stay open, as
// streams of events do.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// Only the writers of tests have no deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// api begins the paths of the dashboard's API.
const api = "/api/v1/"

// directing answers LLM requests, which the port does not serve, with the right address.
func directing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, api) || r.Method != http.MethodPost && !strings.HasPrefix(r.URL.Path, "/v1") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintln(w, `{"error":{"message":"this is Unloop's admin port, which forwards nothing; set the base URL to the gateway's port (--listen, by default http://127.0.0.1:8080)","type":"invalid_request_error","code":"admin_port"}}`)
	})
}

// keyFlag is the prefix of values of --admin-auth.
const keyFlag = "key:"

// AdminGuard returns the guard for the keys of --admin-auth; nil without keys.
func AdminGuard(flags []string) (*access.Guard, error) {
	if len(flags) == 0 {
		return nil, nil
	}
	places := make([]string, len(flags))
	for i, flag := range flags {
		var ok bool
		if places[i], ok = strings.CutPrefix(flag, keyFlag); !ok {
			return nil, errors.New("--admin-auth must look like key:env:VARIABLE or key:file:PATH")
		}
	}
	keys, err := access.ReadKeys(places)
	if err != nil {
		return nil, fmt.Errorf("--admin-auth: %w", err)
	}
	return access.NewGuard(keys), nil
}

// Require makes requests need a key of the guard; a nil guard changes nothing. It is called
// before Run. Probes and load balancers have no keys: /healthz stays open, and /readyz
// without a key answers with its status only.
func (a *Admin) Require(guard *access.Guard) {
	if guard == nil {
		return
	}
	a.guarded = true
	open := a.server.Handler
	protected := guard.Protect(open)
	a.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz":
			open.ServeHTTP(w, r)
		case r.URL.Path == "/readyz" && !guard.Admits(r):
			open.ServeHTTP(statusOnly{w}, r)
		default:
			protected.ServeHTTP(w, r)
		}
	})
}

// refusal returns the reason for which clients may change nothing: those of other machines
// need a key.
func (a *Admin) refusal() string {
	host, _, err := net.SplitHostPort(a.Addr())
	if a.guarded || err == nil && access.Loopback(host) {
		return ""
	}
	return "other machines reach this port without a key, so it only shows: set --admin-auth, or a loopback address in --admin"
}

// statusOnly drops an answer's body.
type statusOnly struct{ http.ResponseWriter }

func (statusOnly) Write(p []byte) (int, error) { return len(p), nil }

// Addr returns the address that the port listens at.
func (a *Admin) Addr() string { return a.listener.Addr().String() }

// Readiness returns a readiness that is always ready: the port listens from NewAdmin on.
func (a *Admin) Readiness() *Readiness { return &a.ready }

// Run serves until the context ends.
func (a *Admin) Run(ctx context.Context) error {
	a.server.Handler = a.pages.Protect(a.server.Handler)
	return ServeHTTP(ctx, a.server, a.listener, adminGrace)
}

// ServeHTTP serves until the context ends. Then it waits at most grace for requests in
// flight.
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

// readyz answers 200 if all services are ready, else 503, with one line per service and
// remark.
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
			for _, remark := range remarksOf(s.Service) {
				fmt.Fprintf(&lines, "%s: remark: %s\n", s.Name, remark)
			}
		}
		w.WriteHeader(status)
		fmt.Fprint(w, lines.String())
	}
}
