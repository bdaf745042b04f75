package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/answers"
	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
)

// Evidence makes the checks that a gateway would send about requests that are
// not to be forwarded, such as recorded ones. It uses the code of the gateway
// itself, and neither listens nor asks anybody. It is safe for concurrent use.
type Evidence struct {
	gateway  *Gateway
	policies *policy.Set
}

// NewEvidence returns the evidence by the configured bundle, or by the default
// policy. Policies that hold for a time only hold by the clock.
func NewEvidence(cfg Config, now func() time.Time) (*Evidence, error) {
	table, err := route.NewTable(cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("read --upstream: %w", err)
	}
	g := &Gateway{cfg: cfg, log: slog.New(slog.DiscardHandler), now: now, table: table, metrics: newMetrics(prometheus.NewRegistry())}
	if g.bundles, err = newBundles(cfg.Policies, now, g.log, g.metrics); err != nil {
		return nil, err
	}
	g.overrides, g.answers = newOverrides(g.log), noAnswers{}
	// Whoever has recordings has the keys' hashes anyway, and the same traffic is
	// to give the same report each time.
	g.hasher.Store(identity.NewHasher([identity.KeySize]byte{}))
	return &Evidence{gateway: g, policies: g.bundles.inForce().Set}, nil
}

// noAnswers knows the sessions of no answers. Recordings name the session of a
// request that goes on from one.
type noAnswers struct{}

func (noAnswers) Session(context.Context, string, string) (string, error) {
	return "", answers.ErrUnknown
}

func (noAnswers) Put(context.Context, string, string, string) error { return nil }

func (noAnswers) Calls(context.Context, string, string, bool) ([]*checkpb.ToolCall, error) {
	return nil, answers.ErrUnknown
}

func (noAnswers) PutCalls(context.Context, string, string, []*checkpb.ToolCall) error { return nil }

// Policies is the bundle that requests are judged by.
func (e *Evidence) Policies() *policy.Set { return e.policies }

// Check returns what a gateway would ask about a request, nil if no policy
// looks at it. Upstream is where it went, if that is known better than from its
// path. The error is that of reading the body.
func (e *Evidence) Check(r *http.Request, upstream string) (*checkpb.Check, error) {
	g := e.gateway
	target, _ := g.table.Route(r) // what went nowhere can be judged, too
	if upstream != "" {
		target.Upstream = upstream
	}
	x := &exchange{r: r, target: target, provider: providers[target.Format], rules: g.bundles.inForce()}
	var err error
	x.body, err = readBody(r, g.cfg.MaxInspectBytes)
	switch {
	case errors.Is(err, errTooLarge):
		x.uninspect(g, uninspectedTooLarge)
	case err != nil:
		return nil, err
	default:
		g.parse(x)
	}
	g.identify(x)
	if !g.gather(x) {
		return nil, nil
	}
	return x.check, nil
}

// CameToNothing says whether a request with that answer does not count, since an
// honest client would send it again, or did not wait for it.
func CameToNothing(status int) bool { return status == statusClientLeft || cameToNothing(status) }
