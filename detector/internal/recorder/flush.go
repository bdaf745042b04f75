package recorder

import (
	"context"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// Run writes gathered findings until the context ends, then once more. Findings that
// can't be written then are counted as lost.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-pause.Together(incident.FlushEvery):
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
	r.retryAnnouncements(ctx)
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
	var failed error
	for _, u := range r.takeUpdates() {
		if failed == nil { // else the others would fail, too, or wait as long
			failed = r.flushOne(ctx, u)
			continue
		}
		r.retry(u, failed)
	}
	r.retryAnnouncements(ctx)
}

// flushOne writes an update; what fails is tried again with the next flush. The error says
// that other updates need not be tried.
func (r *Recorder) flushOne(ctx context.Context, u update) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	_, err := r.save(ctx, u)
	if err != nil {
		r.retry(u, err)
	}
	if natskit.IsFull(err) { // there may be room for a smaller one
		return nil
	}
	return err
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
