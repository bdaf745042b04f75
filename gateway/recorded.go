package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/account"
	"github.com/unloop/unloop/gateway/internal/admit"
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/cluster"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/identity"
	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/override"
	"github.com/unloop/unloop/gateway/internal/resolve"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/gateway/internal/usage"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Evidence makes the checks that a gateway would send about requests that are
// not to be forwarded, such as recorded ones. It uses the code of the gateway
// itself, and neither listens nor asks anybody. It is not safe for concurrent use.
type Evidence struct {
	gateway   *Gateway
	policies  *bundle.Set
	overrides *override.History
}

// NewEvidence returns the evidence by the configured bundle, or by the default
// policy. Policies that hold for a time only hold by the clock.
func NewEvidence(cfg Config, now func() time.Time) (*Evidence, error) {
	table, err := route.NewTable(cfg.Upstream)
	if err != nil {
		return nil, fmt.Errorf("read --upstream: %w", err)
	}
	g := &Gateway{cfg: cfg, log: slog.New(slog.DiscardHandler), now: now, table: table, gate: &admit.Gate{}, metrics: newMetrics(prometheus.NewRegistry())}
	if g.bundles, err = newPolicies(cfg, now, g.log, prometheus.NewRegistry()); err != nil {
		return nil, err
	}
	g.memory = evidence.NewMemory()
	// Recordings name the session of a request that goes on from an answer.
	g.resolver = resolve.New(resolve.Config{Project: cfg.Project}, nil, prometheus.NewRegistry())
	// Whoever has recordings has the keys' hashes anyway, and the same traffic is
	// to give the same report each time.
	g.shared = cluster.New(new([identity.KeySize]byte), g.log)
	return &Evidence{gateway: g, policies: g.bundles.Rules().Set, overrides: override.NewHistory(nil)}, nil
}

// Policies is the bundle that requests are judged by.
func (e *Evidence) Policies() *bundle.Set { return e.policies }

// Origin is what is known of a recorded request beside its bytes.
type Origin struct {
	// Upstream is where it went; "" to find that by its path.
	Upstream string
	// Caller and Session are the hashes by which a gateway knew them; where they
	// are empty, they follow from the request. OwnSession says that the request
	// named its session, TenantVerified that the tenant is no mere label.
	Caller, Session string
	OwnSession      bool
	TenantVerified  bool
}

// Question is what a gateway would do before it asks a detector, and what it
// would ask.
type Question struct {
	// Operator is what an operator had done with the request, as recordings say it,
	// and Reason why; "" for nothing.
	Operator, Reason string
	// Check is nil if no policy looks at the request, or an operator does not want
	// any to.
	Check    *checkpb.Check
	evidence evidence.Evidence
}

// Question returns what a gateway would do with a request. The error is that of
// reading the body.
func (e *Evidence) Question(r *http.Request, from Origin) (*Question, error) {
	g := e.gateway
	target, _ := g.table.Route(r) // what went nowhere can be judged, too
	if from.Upstream != "" {
		target.Upstream = from.Upstream
	}
	x := g.newExchange(r, target)
	defer g.memory.Answered(&x.Evidence)
	var err error
	if x.Body, err = intake.Read(r, g.cfg.MaxInspectBytes); err != nil {
		return nil, err
	}
	g.parse(x)
	g.identify(x)
	x.identifyAs(from)
	x.operator = override.Decide(e.overrides.At(g.now()), x.rules.Set, &x.Request, &x.Subject, g.now())
	out := &Question{Operator: x.operator.Operator, Reason: x.operator.Reason}
	if x.operator.Operator == "" && g.gather(x) {
		out.Check, out.evidence = x.Check, x.Evidence
	}
	return out, nil
}

// identifyAs takes over the identity that a request was recorded with.
func (x *exchange) identifyAs(from Origin) {
	if from.Caller != "" {
		x.Identity.Caller = from.Caller
	}
	if from.Session != "" {
		x.Identity.Session, x.OwnSession = from.Session, from.OwnSession
	}
	x.Client.Tenanted = from.TenantVerified
}

// Outcome is what came of a request: the status that it was answered with, and
// its tokens, all 0 if they are not known.
type Outcome struct {
	Status                                  int
	InputTokens, CachedTokens, OutputTokens int
}

// Corrections are what estimates of the rules were wrong by, as a gateway would
// tell once it knows the outcome.
func (q *Question) Corrections(d *checkpb.Decision, o Outcome, at time.Time) []*checkpb.Correction {
	u := &usage.Usage{Input: o.InputTokens, Cached: o.CachedTokens, Output: o.OutputTokens}
	switch {
	case o.Status >= http.StatusBadRequest:
		u = nil
	case *u == usage.Usage{}:
		return nil
	}
	return account.Corrections(account.Reserved(q.evidence.Limits, d), u, q.evidence.At, at, "")
}

// SetOverrides has operators' blocks and exemptions hold, each from when it was
// made until it ended, by the clock.
func (e *Evidence) SetOverrides(all []schemas.Override) { e.overrides = override.NewHistory(all) }

// CameToNothing says whether a request with that answer does not count, since an
// honest client would send it again, or did not wait for it.
func CameToNothing(status int) bool {
	return status == respond.StatusClientLeft || account.Uncounted(status)
}
