package recorder

import (
	"context"
	"fmt"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
)

// Resolve ends the incident that a finding belongs to, and announces its end. It
// does nothing where none is open.
func (r *Recorder) Resolve(ctx context.Context, f incident.Finding) error {
	key := f.Key()
	rec, err := r.ledger.Read(ctx, key)
	if err != nil {
		return fmt.Errorf("read incident %s: %w", key, err)
	}
	if rec.LoopID == "" {
		return nil
	}
	if err := r.publish(ctx, rec.Event(event.Resolved, r.now())); err != nil {
		return err
	}
	r.forgetOne(key, rec.LoopID)
	return r.Purge(ctx, schemas.BucketIncidents, key)
}

// Resolve ends the incident that a finding belongs to.
func (m *Memory) Resolve(_ context.Context, f incident.Finding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, f.Key())
	return nil
}
