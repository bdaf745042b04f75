package deliver

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/tracing"
	"github.com/unloop/unloop/schemas/silence"
)

// Config is a pipeline's configuration and dependencies.
type Config struct {
	NATS   *natskit.Conn
	Layout natskit.Layout
	Log    *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Traces makes spans of attempts; nil for none.
	Traces *tracing.Tracer
	// Silences returns those in force.
	Silences func() []silence.Silence
	// Page is the address of the dashboard, to which messages link; "" for none.
	Page string
	// Grace is how long attempts in flight may take after the end of the context.
	Grace time.Duration
}

// Pipeline takes events to endpoints. It is safe for concurrent use.
type Pipeline struct {
	Config
	// Margin is how much longer than an attempt a claim stands before another notifier takes
	// the message over. Only tests change it, before Run.
	Margin  time.Duration
	id      string
	metrics *metrics

	records   *ledger.Ledger[outbox.Record, *outbox.Record]
	journal   *ledger.Ledger[entry, *entry]
	endpoints *ledger.Ledger[state, *state]
	room      room

	mu     sync.Mutex
	states map[string]delivery.Endpoint
	using  map[string]*endpoint
}

// idLength is the length of a notifier's id, long enough to be unique among running ones.
const idLength = 8

// New returns a pipeline without endpoints.
func New(cfg Config) *Pipeline {
	id := nuid.New().Next()
	return &Pipeline{
		Config: cfg, Margin: leaseMargin, id: id[:idLength], metrics: newMetrics(cfg.Metrics),
		records:   ledger.New[outbox.Record](cfg.NATS, schemas.BucketNotifications, cfg.Metrics, ledger.WithConfirm()),
		endpoints: ledger.New[state](cfg.NATS, schemas.BucketNotifications, cfg.Metrics, ledger.WithConfirm()),
		journal:   ledger.New[entry](cfg.NATS, schemas.BucketDeliveries, cfg.Metrics),
		states:    map[string]delivery.Endpoint{}, using: map[string]*endpoint{},
	}
}

func (p *Pipeline) follower() *natskit.Follower {
	return &natskit.Follower{Conn: p.NATS, Layout: p.Layout, Log: p.Log}
}

// Follow follows the state of all endpoints until the context ends.
func (p *Pipeline) Follow(ctx context.Context) error {
	return p.follower().Follow(ctx, schemas.BucketNotifications, schemas.EndpointPrefix+"*", func(entries []jetstream.KeyValueEntry, all bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if all {
			clear(p.states)
		}
		for _, entry := range entries {
			var s delivery.Endpoint
			if entry.Operation() != jetstream.KeyValuePut || json.Unmarshal(entry.Value(), &s) != nil {
				delete(p.states, entry.Key())
				continue
			}
			p.states[entry.Key()] = s
			p.metrics.disabled.WithLabelValues(strings.TrimPrefix(entry.Key(), schemas.EndpointPrefix)).Set(flag(!s.Disabled.IsZero()))
		}
	})
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// Use adds an endpoint, or changes the one of that name from its next attempt on.
func (p *Pipeline) Use(def *Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.using[def.Name]; e != nil {
		e.def.Store(def)
		return
	}
	p.using[def.Name] = newEndpoint(p, def)
}

// Run makes attempts at the messages of an endpoint in use until the context ends. Attempts in
// flight may take the grace period; the rest is cancelled and left to other notifiers.
func (p *Pipeline) Run(ctx context.Context, name string) {
	e := p.endpoint(name)
	if e == nil {
		return
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(p.Grace, stop) })()
	e.run(ctx, work)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.using, name)
}

// endpoint returns an endpoint in use; nil if there is none of that name.
func (p *Pipeline) endpoint(name string) *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.using[name]
}
