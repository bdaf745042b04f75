package recorder

import (
	"context"
	"fmt"
	"time"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Resolve ends the incident that a finding belongs to, if it is open, and announces its end.
func (r *Recorder) Resolve(ctx context.Context, f incident.Finding, reason string) error {
	key := f.Key()
	rec, err := r.ledger.Read(ctx, key)
	if err != nil {
		return fmt.Errorf("read incident %s: %w", key, err)
	}
	if rec.LoopID == "" {
		return nil
	}
	return r.end(ctx, key, rec.LoopID, reason)
}

// end ends an incident: it marks the record as over, so that no finding is added any more,
// publishes loop.resolved, and removes the record. After a crash, whoever finds the mark goes
// on from there. The first reason counts. A full bucket has no room for the mark; the removal
// makes some. The timer of an incident that ends early is cut short.
func (r *Recorder) end(ctx context.Context, key, loopID, reason string) error {
	rec, open, err := r.noteEnd(ctx, key, loopID, reason)
	if err != nil && !natskit.IsFull(err) {
		return fmt.Errorf("end incident %s: %w", key, err)
	}
	if !open {
		return nil
	}
	if err := r.publishEnd(ctx, rec); err != nil {
		return err
	}
	r.forgetOne(key, loopID)
	first := false
	err = r.ledger.Apply(ctx, key, func(now incident.Record) (incident.Record, time.Duration) {
		if first = now.LoopID == loopID; !first {
			return now, 0
		}
		return incident.Record{}, time.Second
	})
	if err != nil {
		return fmt.Errorf("remove incident %s: %w", key, err)
	}
	if rec.Over != event.ReasonExpired {
		_ = r.arm(ctx, timer{loopID, key}, 0) // it expires later otherwise
	}
	if first {
		r.resolved.WithLabelValues(rec.Policy, rec.Detector, rec.Over).Inc()
		r.log.Info("loop resolved", "loop_id", rec.LoopID, "tenant", rec.Tenant, "policy", rec.Policy, "reason", rec.Over,
			"requests", rec.Requests, "stopped", rec.Saved.Requests)
	}
	return nil
}

// noteEnd marks an incident's record as over. It returns false if the record is of another
// incident, or if the incident goes on after all.
func (r *Recorder) noteEnd(ctx context.Context, key, loopID, reason string) (rec incident.Record, open bool, err error) {
	err = r.ledger.Apply(ctx, key, func(now incident.Record) (incident.Record, time.Duration) {
		rec = now
		open = now.LoopID == loopID && (now.Over != "" || reason != event.ReasonExpired || now.IsOver(r.now()))
		if !open || now.Over != "" {
			return now, 0
		}
		rec.Over = reason
		return rec, rec.TTL()
	})
	return rec, open, err
}

// publishEnd publishes the end of an incident, after its beginning.
func (r *Recorder) publishEnd(ctx context.Context, rec incident.Record) error {
	if !rec.Announced {
		if err := r.publish(ctx, rec.Event(event.Detected, r.now())); err != nil {
			return err
		}
	}
	return r.publish(ctx, rec.Event(event.Resolved, r.now()))
}

// Resolve ends the incident that a finding belongs to.
func (m *Memory) Resolve(_ context.Context, f incident.Finding, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, f.Key())
	return nil
}
