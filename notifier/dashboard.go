package notifier

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/unloop/unloop/notifier/internal/api"
	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/notifier/internal/page"
	"github.com/unloop/unloop/notifier/internal/watch"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/kit/audit"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/silence"
)

// dashboard is the page of loops and its API. The nil dashboard serves nothing.
type dashboard struct {
	*watch.Watcher
	board    *board.Board
	operator operations
	// endpoints returns the endpoints of the notifier; nil if it has none.
	endpoints func() []api.Endpoint
	// done is closed when the dashboard stops.
	done chan struct{}
}

func newDashboard(deps service.Deps) *dashboard {
	b := board.New()
	metric.GaugeFunc(deps.Metrics, "unloop_open_loops", "Open loops; each notifier reports all of them.", func() float64 { return float64(b.OpenLoops(time.Now())) })
	return &dashboard{
		board: b, Watcher: watch.New(deps.NATS, deps.Layout, deps.Trust, b, deps.Log), operator: operations{deps.NATS, deps.Trust, deps.Log}, done: make(chan struct{}),
	}
}

// run keeps the dashboard up to date until the context ends, and then ends the event streams of
// clients.
func (d *dashboard) run(ctx context.Context) error {
	if d == nil {
		return nil
	}
	defer close(d.done)
	return d.Run(ctx)
}

// Endpoints returns the endpoints of the notifier.
func (d *dashboard) Endpoints() []api.Endpoint {
	if d.endpoints == nil {
		return nil
	}
	return d.endpoints()
}

// Site returns the handler of the page and its API on the admin port. refuse returns why
// clients can't change anything, or "" if they can.
func (n *Notifier) Site(refuse func() string) http.Handler {
	d := n.dashboard
	if d == nil {
		return http.NotFoundHandler()
	}
	mux := http.NewServeMux()
	mux.Handle(api.Prefix, api.New(d.board, d, d.operator, refuse, time.Now, d.done).Handler())
	mux.Handle("/", page.Handler())
	return mux
}

// operations carries out requests of operators over NATS.
type operations struct {
	nc    *natskit.Conn
	trust seal.Trust
	log   *slog.Logger
}

// Release releases a loop. It succeeds even if the audit record can't be written.
func (o operations) Release(ctx context.Context, actor, loopID string) (int, error) {
	counters, err := operator.Release(ctx, o.nc.NATS(), loopID)
	if err == nil {
		o.record(ctx, schemas.Audit{Actor: actor, Action: schemas.AuditRelease, Target: loopID})
	}
	return counters, err
}

func (o operations) AddSilence(ctx context.Context, actor string, s silence.Silence) (silence.Silence, error) {
	added, err := silences.Add(ctx, o.nc.JetStream(), s)
	if err == nil {
		o.record(ctx, schemas.Audit{
			Actor: actor, Action: schemas.AuditSilence, Target: added.ID,
			Detail: added.Matchers.String() + " until " + added.End.Format(time.RFC3339),
		})
	}
	return added, err
}

func (o operations) ExpireSilence(ctx context.Context, actor, id string) error {
	_, err := silences.Expire(ctx, o.nc.JetStream(), id)
	if err == nil {
		o.record(ctx, schemas.Audit{Actor: actor, Action: schemas.AuditUnsilence, Target: id})
	}
	return err
}

// Sealed reports that records of operators need a seal, whose key no notifier has.
func (o operations) Sealed() bool { return o.trust.Checks() }

func (o operations) AddOverride(ctx context.Context, actor string, set schemas.Override) error {
	return o.putOverride(ctx, actor, set, true)
}

func (o operations) EndOverride(ctx context.Context, actor string, ended schemas.Override) error {
	return o.putOverride(ctx, actor, ended, false)
}

// storeTimeout bounds the storing of a record: a server does not answer if it is not permitted.
const storeTimeout = 5 * time.Second

func (o operations) putOverride(ctx context.Context, actor string, set schemas.Override, begins bool) error {
	if o.Sealed() {
		return operator.ErrSealed
	}
	limit, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := operator.PutOverride(limit, o.nc.JetStream(), nil, set); err != nil {
		return err
	}
	a := schemas.Audit{Actor: actor, Action: operator.AuditOf(set.Action, begins), Target: string(set.Scope) + " " + set.Value}
	if begins {
		a.Detail = operator.OverrideDetail(set)
	}
	o.record(ctx, a)
	return nil
}

// deliverTimeout is longer than an attempt with the default --webhook-timeout.
const deliverTimeout = 25 * time.Second

// Deliver asks any notifier. Tests change nothing, so they are not in the audit.
func (o operations) Deliver(ctx context.Context, actor string, what operator.Delivery, req delivery.Request) (delivery.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	rec, err := operator.Deliver(ctx, o.nc.NATS(), what, req)
	switch {
	case err != nil:
	case what == operator.Resend:
		o.record(ctx, schemas.Audit{Actor: actor, Action: schemas.AuditResend, Target: req.ID, Detail: "to " + req.Endpoint})
	case what == operator.Enable:
		o.record(ctx, schemas.Audit{Actor: actor, Action: schemas.AuditEnableEndpoint, Target: req.Endpoint})
	}
	return rec, err
}

func (o operations) Audit(ctx context.Context, n int) ([]schemas.Audit, error) {
	return audit.List(ctx, o.nc.JetStream(), n)
}

func (o operations) record(ctx context.Context, a schemas.Audit) {
	a.Via = "dashboard"
	if err := audit.Record(context.WithoutCancel(ctx), o.nc.JetStream(), a); err != nil {
		o.log.WarnContext(ctx, "audit record of an operator's action was not stored", "action", a.Action, "target", a.Target, "actor", a.Actor, "error", err)
	}
}
