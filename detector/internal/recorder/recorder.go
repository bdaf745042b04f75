// Package recorder stores incidents in JetStream KV and publishes their events: one
// loop.detected for each, loop.ongoing as it grows and one loop.resolved, whichever
// detectors see it.
//
// It knows how incidents are stored and announced. It does not know how a loop is
// found, or what is decided about a request.
package recorder

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// flushTimeout bounds one write of the record, and one event.
	flushTimeout = 5 * time.Second
	// maxPending bounds the findings gathered for one incident between two
	// flushes; more of them only raise the counts of those.
	maxPending = 64
	// maxUnsaved bounds the writes and events that wait for another attempt.
	maxUnsaved = 4096
)

// Recorder records findings.
type Recorder struct {
	ledger *ledger.Ledger[incident.Record, *incident.Record]
	nc     *natskit.Conn
	inbox  *natskit.Inbox
	layout natskit.Layout
	log    *slog.Logger
	now    func() time.Time

	mu   sync.Mutex
	open map[string]*openIncident
	// unsaved are updates whose write failed, unannounced are events that are not stored
	// yet or not noted in their record. Both are tried again with each flush.
	unsaved     []update
	unannounced []announcement

	announcing sync.WaitGroup
	detected   *prometheus.CounterVec
	resolved   *prometheus.CounterVec
	lost       prometheus.Counter
	refused    prometheus.Counter
	room       *natskit.Room
	saved      *savings
	tenants    *tenants
}

// openIncident is what this process knows of an incident that it has seen.
type openIncident struct {
	loopID  string
	until   time.Time
	pending []incident.Finding
}

// update is one write of findings to a record. With a loop id it changes only that
// incident and opens no new one, since the incident may have been released meanwhile.
// The mark identifies the write, so that it is applied once even if it is tried again.
type update struct {
	key, loopID, mark string
	findings          []incident.Finding
}

// New returns a recorder that stores in schemas.BucketIncidents and
// announces on schemas.StreamEvents.
func New(nc *natskit.Conn, layout natskit.Layout, reg prometheus.Registerer, log *slog.Logger, now func() time.Time) *Recorder {
	r := &Recorder{
		ledger: ledger.New[incident.Record](nc, schemas.BucketIncidents, reg, ledger.WithConfirm()), nc: nc, inbox: natskit.NewInbox(nc, flushTimeout), layout: layout, log: log, now: now, open: map[string]*openIncident{},
		detected: metric.Counters(reg, "unloop_incidents_total", "Incidents announced.", "policy", "detector", "mode"),
		resolved: metric.Counters(reg, "unloop_incidents_resolved_total", "Incidents announced as ended, by reason: expired, released or closed.", "policy", "detector", "reason"),
		lost:     metric.Counter(reg, "unloop_incident_updates_lost_total", "Findings and events of incidents that could not be stored."),
		refused:  metric.Counter(reg, "unloop_incidents_refused_total", "Findings of new loops that were not recorded because LOOP_INCIDENTS is full."),
		room:     natskit.NewRoom(nc, schemas.BucketIncidents),
		tenants:  newTenants(reg),
	}
	r.saved = newSavings(reg, r.tenants)
	return r
}

// Record records findings of one incident and returns its id. The first findings of an
// incident wait until the incident is stored; later ones are gathered. Findings that
// could not be stored in time are tried again with the next flush. Where the bucket is
// full, a new incident is refused (natskit.ErrFull), and the conversation's next finding
// tries again.
func (r *Recorder) Record(ctx context.Context, findings ...incident.Finding) (string, error) {
	key := findings[0].Key()
	if id, known := r.gather(key, findings); known {
		return id, nil
	}
	u := update{key: key, mark: newMark(), findings: findings}
	id, err := r.save(ctx, u)
	if err != nil {
		r.retry(u, err)
		return "", fmt.Errorf("open incident: %w", err)
	}
	return id, nil
}

// newMark returns an id for a write that is unique among those to one record.
func newMark() string {
	const length = 10 // the end of a NUID is its sequence and the nearest of its prefix
	id := nuid.Next()
	return id[len(id)-length:]
}

// Open returns the id of the open incident that a finding would belong to; "" if there
// is none, or if the store does not answer.
func (r *Recorder) Open(f incident.Finding) string {
	rec, err := r.ledger.Read(context.Background(), f.Key())
	if err != nil || rec.IsOver(f.At) {
		return ""
	}
	return rec.LoopID
}

// gather keeps findings of an incident that is known to be open.
func (r *Recorder) gather(key string, findings []incident.Finding) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.open[key]
	if !known || o.until.Before(findings[0].At) {
		return "", false
	}
	for _, f := range findings {
		o.gather(f)
	}
	return o.loopID, true
}

// gather keeps a finding until the next flush.
func (o *openIncident) gather(f incident.Finding) {
	o.until = incident.Later(o.until, f.At.Add(f.TTL()))
	for i := range o.pending {
		if p := &o.pending[i]; p.Merges(&f) {
			*p = p.Merge(f)
			return
		}
	}
	if len(o.pending) < maxPending {
		o.pending = append(o.pending, f)
	}
}

// save writes an update and returns the incident's id. An incident that is new to this
// process is remembered, and announced if it has not been.
func (r *Recorder) save(ctx context.Context, u update) (string, error) {
	before, stored, grown, err := r.store(ctx, u)
	if err != nil {
		return "", err
	}
	r.saved.count(before, stored)
	switch {
	case u.loopID == "":
		r.remember(u, stored)
		opened := before.LoopID != stored.LoopID
		if opened { // a release finds the loop as soon as its id is known
			_ = r.arm(ctx, timer{stored.LoopID, u.key}, stored.Remaining(r.now())) // its announcement tries again
		}
		r.announcing.Go(func() { r.begin(context.WithoutCancel(ctx), u.key, stored, opened) })
	case stored.LoopID != u.loopID || stored.Over != "":
		r.forgetOne(u.key, u.loopID)
	}
	if grown {
		r.announcing.Go(func() { r.announce(context.WithoutCancel(ctx), newAnnouncement(u.key, event.Ongoing, stored)) })
	}
	return stored.LoopID, nil
}

// store applies an update to the stored incident and returns it before and after. grown reports that
// loop.ongoing is to be published. An incident that is over gets no findings: a new one
// takes its place.
func (r *Recorder) store(ctx context.Context, u update) (before, out incident.Record, grown bool, err error) {
	fresh := nuid.Next()
	var noRoom, refused error
	if u.loopID == "" {
		noRoom = r.room.Take(ctx)
	}
	err = r.ledger.Apply(ctx, u.key, func(rec incident.Record) (incident.Record, time.Duration) {
		before, out, grown, refused = rec, rec, false, nil
		switch first := &u.findings[0]; {
		case u.loopID != "" && (rec.LoopID != u.loopID || rec.Over != ""):
			return rec, 0
		case rec.LoopID == "" && noRoom != nil:
			refused = noRoom
			return rec, 0
		case rec.LoopID == "":
			rec = incident.New(first, fresh)
		case u.loopID == "" && rec.IsOver(first.At) && !rec.Has(u.mark):
			rec = rec.Follow(first, fresh)
		}
		if rec.LoopID == fresh {
			rec.Region = r.nc.Domain()
		}
		next, changed := rec.Apply(u.mark, u.findings)
		grown = next.Reported.Number > rec.Reported.Number
		if out = next; !changed {
			return rec, 0
		}
		return next, next.TTL()
	})
	return before, out, grown, cmp.Or(err, refused)
}

// remember keeps the stored incident, and the findings that were gathered for it
// meanwhile.
func (r *Recorder) remember(u update, stored incident.Record) {
	newest := u.findings[len(u.findings)-1].At
	o := &openIncident{loopID: stored.LoopID, until: newest.Add(stored.Left())}
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.open[u.key]; old != nil && old.loopID == o.loopID {
		o.pending, o.until = old.pending, incident.Later(o.until, old.until)
	} else if old != nil {
		r.setAside(u.key, old)
	}
	r.open[u.key] = o
}

// setAside moves the gathered findings of an incident to the updates of the next flush;
// the lock is held.
func (r *Recorder) setAside(key string, o *openIncident) {
	if len(o.pending) > 0 {
		r.keep(update{key, o.loopID, newMark(), o.pending})
	}
	o.pending = nil
}

// keep adds an update to those of the next flush; the lock is held.
func (r *Recorder) keep(u update) {
	if len(r.unsaved) >= maxUnsaved {
		r.lost.Add(float64(len(u.findings)))
		return
	}
	r.unsaved = append(r.unsaved, u)
}

// retry keeps an update for the next flush, unless the error says that a full bucket has no
// room for its incident.
func (r *Recorder) retry(u update, err error) {
	if u.loopID == "" && natskit.IsFull(err) {
		r.refused.Add(float64(len(u.findings)))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(u)
}

// forgetOne forgets one incident.
func (r *Recorder) forgetOne(key, loopID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.open[key]; o != nil && o.loopID == loopID {
		r.setAside(key, o)
		delete(r.open, key)
	}
}

// Forget forgets an incident that was released, so that the next finding reads its
// record again. Without an id it forgets all.
func (r *Recorder) Forget(loopID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, o := range r.open {
		if loopID == "" {
			r.setAside(key, o)
		}
		if loopID == "" || o.loopID == loopID {
			delete(r.open, key)
		}
	}
}
