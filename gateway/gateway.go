// Package gateway is a proxy for LLM traffic that asks the detectors about each request and
// carries out their decision. It joins the stages of a request, which are packages of their
// own.
//
// A gateway does not know how detectors decide: it sends evidence. It counts only what it
// alone sees, such as requests in flight and the named sessions of a prompt.
package gateway

import (
	"net"
	"time"

	"github.com/unloop/unloop/gateway/internal/ask/ask"
	"github.com/unloop/unloop/gateway/internal/ask/checker"
	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/beside"
	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/edge/forward"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/edge/wait"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/cluster"
	"github.com/unloop/unloop/gateway/internal/memory/excerpts"
	"github.com/unloop/unloop/gateway/internal/memory/owed"
	"github.com/unloop/unloop/gateway/internal/memory/recording"
	"github.com/unloop/unloop/gateway/internal/memory/traffic"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Gateway is one gateway. Make it with New.
type Gateway struct {
	bounds
	cfg      Config
	now      func() time.Time
	stages   stages.Stages
	deps     service.Deps
	listener net.Listener
	// callers listens for other gateways that ask over gRPC; nil without --beside-listen.
	callers    net.Listener
	shared     *cluster.Shared
	checker    *checker.Checker
	asker      *ask.Asker
	accounts   *account.Deps
	proxy      *forward.Proxy
	api        *checkapi.API
	beside     *beside.Handler
	traffic    traffic.Minute
	recorder   *recording.Recorder // nil without --record
	excerpts   *excerpts.Cache     // nil with --no-excerpts
	repeats    *standing.Requests[basis, *rejected]
	rejections standing.Rejections
	owed       *owed.Hints
	writer     *respond.Writer
	look       outcome.Look
	metrics    *metrics
	ready      service.Readiness
}

// bounds limit what all requests take together: waiting connections, memory, and concurrent
// checks.
type bounds struct {
	waiting *wait.Room
	bodies  *intake.Bodies
	limiter *limiter.Limiter
}

// Option changes what New makes.
type Option func(*Gateway)

// WithClock sets the clock for blocks and for the validity of policies.
func WithClock(now func() time.Time) Option {
	return func(g *Gateway) { g.now = now }
}

// ShowAt sets the address of the dashboard, which refusals name. It is called before Run.
func (g *Gateway) ShowAt(page string, pageAlone bool) {
	g.look = outcome.Look{Page: page, PageAlone: pageAlone}
}

// Addr returns the address that the gateway listens at.
func (g *Gateway) Addr() string { return g.listener.Addr().String() }

// BesideAddr returns the address for other gateways that ask over gRPC; "" for none.
func (g *Gateway) BesideAddr() string {
	if g.callers == nil {
		return ""
	}
	return g.callers.Addr().String()
}

// Readiness reports whether the gateway serves and can ask detectors.
func (g *Gateway) Readiness() *service.Readiness { return &g.ready }

// Streams returns the streams that the gateway needs.
func (*Gateway) Streams() (needed, others []string) {
	return []string{natskit.BucketStream(schemas.BucketPolicies), natskit.BucketStream(schemas.BucketOverrides), natskit.BucketStream(schemas.BucketSessions)}, nil
}
