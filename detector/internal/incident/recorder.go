package incident

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/ledger"
)

const (
	// flushEvery is how long findings of an open incident are gathered before
	// its record is written again.
	flushEvery = 500 * time.Millisecond
	// flushTimeout bounds one write of the record, and one event.
	flushTimeout = 5 * time.Second
	// maxPending bounds the findings gathered for one incident between two
	// flushes; more of them only raise the counts of those.
	maxPending = 64
)

// Recorder records findings.
type Recorder struct {
	ledger *ledger.Ledger[Record, *Record]
	js     jetstream.JetStream
	log    *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	open map[string]*openIncident

	announcing sync.WaitGroup
	detected   *prometheus.CounterVec
	lost       prometheus.Counter
}

// openIncident is what this process knows of an incident that it has seen.
type openIncident struct {
	loopID  string
	until   time.Time
	pending []Finding
}

// NewRecorder returns a recorder that stores in schemas.BucketIncidents and
// announces on schemas.StreamEvents.
func NewRecorder(nc *nats.Conn, reg prometheus.Registerer, log *slog.Logger, now func() time.Time) (*Recorder, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	r := &Recorder{
		ledger: ledger.New[Record](nc, schemas.BucketIncidents, reg), js: js, log: log, now: now, open: map[string]*openIncident{},
		detected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_incidents_total", Help: "Incidents announced.",
		}, []string{"detector", "mode"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "unloop_incident_updates_lost_total", Help: "Updates of incidents or their events that could not be stored.",
		}),
	}
	if reg != nil {
		reg.MustRegister(r.detected, r.lost)
	}
	return r, nil
}

// Record notes a finding and returns the id of its incident. The first finding
// of an incident waits until the incident is stored; later ones are gathered.
func (r *Recorder) Record(ctx context.Context, f Finding) (string, error) {
	key := f.Key()
	if id, known := r.gather(key, f); known {
		return id, nil
	}
	stored, err := r.store(ctx, key, []Finding{f}, "")
	if err != nil {
		return "", fmt.Errorf("open incident: %w", err)
	}
	r.remember(key, stored.LoopID, f)
	if !stored.Announced {
		r.announcing.Go(func() { r.announce(context.WithoutCancel(ctx), key, stored) })
	}
	return stored.LoopID, nil
}

// Open returns the id of the open incident that a finding would belong to; "" if
// there is none, or it can't be told.
func (r *Recorder) Open(f Finding) string {
	rec, err := r.ledger.Read(f.Key())
	if err != nil {
		return ""
	}
	return rec.LoopID
}

// gather keeps a finding of an incident that is known to be open.
func (r *Recorder) gather(key string, f Finding) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.open[key]
	if !known || o.until.Before(f.At) {
		return "", false
	}
	o.until = f.At.Add(f.ttl())
	for i := range o.pending {
		if p := &o.pending[i]; p.sums(&f) {
			f.Hits += p.Hits
			*p = f
			return o.loopID, true
		}
	}
	if len(o.pending) < maxPending {
		o.pending = append(o.pending, f)
	}
	return o.loopID, true
}

// sums reports whether f and later, which is newer, are one finding as far as a
// record tells them apart. Only hits that stopped a request count as such.
func (f *Finding) sums(later *Finding) bool {
	return f.Detector == later.Detector && f.Rule == later.Rule && f.Action.Stops() == later.Action.Stops() &&
		bytes.Equal(f.Fingerprint, later.Fingerprint)
}

func (r *Recorder) remember(key, loopID string, f Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[key] = &openIncident{loopID: loopID, until: f.At.Add(f.ttl())}
}

// store applies findings to the stored incident and returns it. With a loop id,
// only that incident is changed and never a new one opened: it may have been
// released meanwhile.
func (r *Recorder) store(ctx context.Context, key string, findings []Finding, only string) (Record, error) {
	fresh := nuid.Next()
	var out Record
	err := r.ledger.Apply(ctx, key, func(rec Record) (Record, time.Duration) {
		if only != "" && rec.LoopID != only {
			out = rec
			return rec, 0
		}
		if rec.LoopID == "" {
			rec = open(&findings[0], fresh)
		}
		for i := range findings {
			rec = rec.add(&findings[i])
		}
		out = rec
		return rec, findings[len(findings)-1].ttl()
	})
	return out, err
}

// announce publishes loop.detected and notes that it is done. Whoever finds
// the incident unannounced does it again; JetStream drops the second event.
func (r *Recorder) announce(ctx context.Context, key string, rec Record) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := r.publish(ctx, rec.Event(event.Detected, r.now())); err != nil {
		r.lost.Inc()
		r.forgetOne(key) // so that the next finding tries again
		r.log.Warn("event was not stored", "loop_id", rec.LoopID, "error", err)
		return
	}
	first := false
	err := r.ledger.Apply(ctx, key, func(now Record) (Record, time.Duration) {
		first = now.LoopID == rec.LoopID && !now.Announced
		if !first {
			return now, 0
		}
		now.Announced = true
		return now, time.Duration(max(now.WindowSeconds, now.CooldownSeconds, 1)) * time.Second
	})
	if err != nil || !first {
		return
	}
	r.detected.WithLabelValues(rec.Detector, rec.Mode).Inc()
	r.log.Warn("loop detected", "loop_id", rec.LoopID, "tenant", rec.Tenant, "policy", rec.Policy,
		"detector", rec.Detector, "mode", rec.Mode, "action", rec.Action, "count", rec.HitCount, "similarity", rec.Similarity)
}

func (r *Recorder) publish(ctx context.Context, e event.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	_, err = r.js.PublishMsg(ctx, &nats.Msg{Subject: e.Subject(), Data: body, Header: e.Headers()})
	if err != nil {
		return fmt.Errorf("publish event %s: %w", e.ID, err)
	}
	return nil
}

// Run writes gathered findings until the context ends, then once more.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.Flush(ctx)
		case <-ctx.Done():
			r.Flush(context.WithoutCancel(ctx))
			r.announcing.Wait()
			return
		}
	}
}

// Flush writes what was gathered and forgets incidents that are over.
func (r *Recorder) Flush(ctx context.Context) {
	for key, o := range r.takePending() {
		timeout, cancel := context.WithTimeout(ctx, flushTimeout)
		stored, err := r.store(timeout, key, o.pending, o.loopID)
		cancel()
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			r.lost.Inc()
		case stored.LoopID != o.loopID:
			r.forgetOne(key)
		}
	}
}

// takePending hands out copies of the incidents that have something to write.
func (r *Recorder) takePending() map[string]openIncident {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	taken := map[string]openIncident{}
	for key, o := range r.open {
		if len(o.pending) > 0 {
			taken[key] = *o
			o.pending = nil
		} else if o.until.Before(now) {
			delete(r.open, key)
		}
	}
	return taken
}

func (r *Recorder) forgetOne(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, key)
}

// Forget drops what is remembered of all incidents, after one was released:
// the next finding looks again.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.open)
}
