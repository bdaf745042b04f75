package recorder

import (
	"context"
	"time"

	"github.com/unloop/unloop/detector/internal/incident"
)

// Run writes gathered findings until the context ends, then once more. Findings that
// can't be written then are counted as lost.
func (r *Recorder) Run(ctx context.Context) {
	tick := time.NewTicker(incident.FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.Flush(ctx)
		case <-ctx.Done():
			r.finish(context.WithoutCancel(ctx))
			return
		}
	}
}

// finish makes the last attempt at everything.
func (r *Recorder) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	r.Flush(ctx)
	r.announcing.Wait() // a flush may have opened incidents
	r.announceAgain(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.unsaved {
		r.lost.Add(float64(len(u.findings)))
	}
	r.lost.Add(float64(len(r.unannounced)))
	r.unsaved, r.unannounced = nil, nil
}

// Flush writes the gathered findings, tries failed writes and announcements again, and
// forgets incidents that are over.
func (r *Recorder) Flush(ctx context.Context) {
	updates := r.takeUpdates()
	for i, u := range updates {
		timeout, cancel := context.WithTimeout(ctx, flushTimeout)
		_, err := r.save(timeout, u)
		cancel()
		if err != nil { // the others would fail, too, or wait as long
			r.retry(updates[i:]...)
			break
		}
	}
	r.announceAgain(ctx)
}

// takeUpdates returns all updates that are to be written, the oldest first.
func (r *Recorder) takeUpdates() []update {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for key, o := range r.open {
		switch {
		case len(o.pending) > 0:
			r.setAside(key, o)
		case o.until.Before(now):
			delete(r.open, key)
		}
	}
	updates := r.unsaved
	r.unsaved = nil
	return updates
}
