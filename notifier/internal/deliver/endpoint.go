package deliver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
)

const (
	// leaseMargin is the standard of Pipeline.Margin.
	leaseMargin = 5 * time.Second
	// handOff is how much later than the notifier that last changed a record the others
	// handle it.
	handOff = 300 * time.Millisecond
	// tryAgain is the pause after a fault of the store.
	tryAgain = time.Second
)

// Endpoint defines where messages go, and which.
type Endpoint struct {
	// Name is unique among the endpoints.
	Name string
	// Kind names the service, for metrics and logs.
	Kind string
	Sink sink.Sink
	// Routes select the events. The first match applies.
	Routes   []routing.Route
	Throttle routing.Throttle
	Schedule outbox.Schedule
	// Timeout bounds one attempt, Concurrency the attempts at once.
	Timeout     time.Duration
	Concurrency int
}

// route returns the route of a group; a plain one if the configuration no longer has one of
// that name.
func (d *Endpoint) route(name string) *routing.Route {
	for i := range d.Routes {
		if d.Routes[i].Name == name {
			return &d.Routes[i]
		}
	}
	return &routing.Route{Name: name}
}

// endpoint is an endpoint in use.
type endpoint struct {
	*Pipeline
	def    atomic.Pointer[Endpoint]
	agenda *agenda
	report reporter

	mu sync.Mutex
	// flying are the keys of records with an attempt by this notifier in flight.
	flying map[string]bool
	// owed are the keys of records that owe a message.
	owed map[string]bool
	// silenced are the keys of records with silenced loops.
	silenced map[string]bool
	// usage is the size of all records.
	usage *usage
}

func newEndpoint(p *Pipeline, def *Endpoint) *endpoint {
	e := &endpoint{Pipeline: p, agenda: newAgenda(), flying: map[string]bool{}, owed: map[string]bool{}, silenced: map[string]bool{}, usage: newUsage()}
	e.def.Store(def)
	e.report = p.metrics.of(def, p.Log)
	return e
}

// groupKey returns the key of the record of a group at this endpoint.
func (d *Endpoint) groupKey(route *routing.Route, key string) string {
	sum := sha256.Sum256([]byte(route.Name + "\x00" + key))
	return schemas.OwedKey(d.Name, hex.EncodeToString(sum[:16]))
}

// run follows the endpoint's records and makes attempts until ctx ends. The end of work
// cancels the attempts in flight.
func (e *endpoint) run(ctx, work context.Context) {
	var running sync.WaitGroup
	for range e.def.Load().Concurrency {
		running.Go(func() { e.work(ctx, work) })
	}
	running.Go(func() {
		keys := schemas.OwedKey(e.def.Load().Name, "*")
		_ = e.follower().Follow(ctx, schemas.BucketNotifications, keys, e.follow) // fails only when the context ends
	})
	running.Wait()
	e.agenda.clear()
}

// follow schedules the work for changed records.
func (e *endpoint) follow(entries []jetstream.KeyValueEntry, all bool) {
	if all {
		e.agenda.clear()
		e.usage.clear()
		e.mu.Lock()
		clear(e.owed)
		clear(e.silenced)
		e.mu.Unlock()
	}
	for _, entry := range entries {
		var rec outbox.Record
		if entry.Operation() == jetstream.KeyValuePut && rec.Parse(entry.Value()) != nil {
			continue // not a record
		}
		e.usage.put(entry.Key(), len(entry.Value()), entry.Created().Add(rec.TTL()))
		if wait, lapsed, ok := e.plan(entry.Key(), &rec); ok {
			e.agenda.set(entry.Key(), wait, lapsed)
		} else {
			e.agenda.drop(entry.Key())
		}
	}
	e.mu.Lock()
	n := len(e.owed)
	e.mu.Unlock()
	e.report.owed.Set(float64(n))
}

// plan returns how long to wait until a record needs work, and the claim that will have
// expired by then. It returns false if the record needs no work.
func (e *endpoint) plan(key string, rec *outbox.Record) (wait time.Duration, lapsed outbox.Claim, ok bool) {
	e.mu.Lock()
	flying := e.flying[key]
	mark(e.owed, key, rec.Owed())
	mark(e.silenced, key, rec.Silenced())
	e.mu.Unlock()
	next := rec.Next()
	switch {
	case rec.Claim != outbox.Claim{} && rec.Claim.By == e.id && flying:
		return 0, outbox.Claim{}, false
	case rec.Claim != outbox.Claim{}:
		return e.def.Load().Timeout + e.Margin, rec.Claim, true
	case next.IsZero():
		return 0, outbox.Claim{}, false
	case rec.By != e.id:
		return max(time.Until(next), 0) + handOff, outbox.Claim{}, true
	default:
		return time.Until(next), outbox.Claim{}, true
	}
}

func mark(keys map[string]bool, key string, in bool) {
	if in {
		keys[key] = true
	} else {
		delete(keys, key)
	}
}

// Unsilence handles the records with silenced loops again, because a silence may have ended
// early.
func (p *Pipeline) Unsilence() {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.using))
	p.mu.Unlock()
	for _, e := range all {
		e.mu.Lock()
		keys := slices.Collect(maps.Keys(e.silenced))
		e.mu.Unlock()
		for _, key := range keys {
			e.agenda.hasten(key)
		}
	}
}

// work makes attempts until the context ends.
func (e *endpoint) work(ctx, work context.Context) {
	for {
		it, ok := e.agenda.next(ctx)
		if !ok {
			return
		}
		e.handle(work, it)
	}
}

// handle does the work that is due for a record.
func (e *endpoint) handle(ctx context.Context, it *item) {
	if !e.begin(it.key) {
		e.agenda.setIfNone(it.key, handOff, it.lapsed)
		return
	}
	rec := e.attempt(ctx, it)
	e.end(it.key)
	if rec == nil {
		return
	}
	if wait, lapsed, ok := e.plan(it.key, rec); ok {
		e.agenda.setIfNone(it.key, wait, lapsed)
	}
}

// begin marks a record as handled by this notifier. It returns false if it already is.
func (e *endpoint) begin(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flying[key] {
		return false
	}
	e.flying[key] = true
	return true
}

func (e *endpoint) end(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.flying, key)
}

// attempt takes a record through the stages after grouping. It returns the stored record; nil
// if that is not known or the record is scheduled already.
func (e *endpoint) attempt(ctx context.Context, it *item) *outbox.Record {
	def := e.def.Load()
	if wait := e.paused(def.Name); wait > 0 {
		e.agenda.setIfNone(it.key, wait, it.lapsed)
		return nil
	}
	claim, rec, taken, err := e.take(ctx, def, it)
	switch {
	case err != nil:
		e.Log.DebugContext(ctx, "delivery waits for the store", "error", err)
		e.agenda.setIfNone(it.key, tryAgain, it.lapsed)
		return nil
	case !taken:
		return &rec
	}
	wait, err := e.throttle(ctx, def)
	if err == nil && wait > 0 {
		return e.release(it.key, def, &rec, claim, wait)
	}
	if errors.Is(err, context.Canceled) {
		return e.release(it.key, def, &rec, claim, 0)
	}
	return e.deliver(ctx, it.key, def, &rec, claim)
}

// state returns the endpoint's stored state.
func (p *Pipeline) state(name string) delivery.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[schemas.EndpointKey(name)]
}

// paused returns how long the endpoint is paused; zero or negative if it is not.
func (p *Pipeline) paused(name string) time.Duration { return time.Until(p.state(name).Paused) }
