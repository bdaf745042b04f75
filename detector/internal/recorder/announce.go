package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
)

// announceFor bounds the time for which storing an event is tried. It is within the two
// minutes for which JetStream drops a second event with the same id.
const announceFor = 90 * time.Second

// announcement is an event to be published. After loop.detected, the record of the incident is
// marked as announced.
type announcement struct {
	key       string
	typ       event.Type
	record    incident.Record
	giveUp    time.Time
	published bool
}

func newAnnouncement(key string, typ event.Type, rec incident.Record) announcement {
	return announcement{key: key, typ: typ, record: rec, giveUp: time.Now().Add(announceFor)}
}

// begin announces an incident that is new to this process, if it has not been announced, and
// sets its timer. An incident that another process opened is left to that process until the
// next flush.
func (r *Recorder) begin(ctx context.Context, key string, rec incident.Record, opened bool) {
	a := newAnnouncement(key, event.Detected, rec)
	if opened {
		r.announce(ctx, a)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := r.arm(ctx, timer{rec.LoopID, key}, rec.Remaining(r.now())); err != nil || !rec.Announced || rec.Former != nil {
		r.announceLater(a)
	}
}

// announce publishes an event; if that fails, the next flush tries again. loop.detected follows
// the end of the incident before, and is noted in the incident's record. Every detector that
// finds the incident unannounced publishes the event; JetStream drops duplicates.
func (r *Recorder) announce(ctx context.Context, a announcement) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if !a.published {
		if err := r.publishBegin(ctx, &a); err != nil {
			r.unpublished(a, err)
			return
		}
		a.published = true
	}
	if a.typ != event.Detected {
		return
	}
	first, err := r.noteAnnounced(ctx, a)
	switch rec := a.record; {
	case err != nil:
		r.announceLater(a)
	case first:
		r.detected.WithLabelValues(rec.Policy, rec.Detector, rec.Mode).Inc()
		r.tenants.found(rec)
		r.log.Warn("loop detected", "loop_id", rec.LoopID, "tenant", rec.Tenant, "policy", rec.Policy,
			"detector", rec.Detector, "mode", rec.Mode, "action", rec.Action, "count", rec.HitCount, "similarity", rec.Similarity)
	}
}

// publishBegin publishes the announcement's event. Before loop.detected it publishes the end of
// the incident before, and sets the incident's timer again: the first attempt may have failed.
func (r *Recorder) publishBegin(ctx context.Context, a *announcement) error {
	if a.typ == event.Detected {
		if f := a.record.Former; f != nil {
			if err := r.publishEnd(ctx, incident.Record{Record: *f}); err != nil {
				return err
			}
		}
		if err := r.arm(ctx, timer{a.record.LoopID, a.key}, a.record.Remaining(r.now())); err != nil {
			return err
		}
	}
	return r.publish(ctx, a.record.Event(a.typ, r.now()))
}

// unpublished tries an event again later. After announceFor it gives up, and the
// incident's next finding announces it.
func (r *Recorder) unpublished(a announcement, err error) {
	if time.Now().Before(a.giveUp) {
		r.announceLater(a)
		return
	}
	r.lost.Inc()
	r.forgetOne(a.key, a.record.LoopID)
	r.log.Warn("event was not stored", "loop_id", a.record.LoopID, "error", err)
}

// noteAnnounced marks the record as announced. It returns true if the record was not marked
// before.
func (r *Recorder) noteAnnounced(ctx context.Context, a announcement) (first bool, err error) {
	err = r.ledger.Apply(ctx, a.key, func(now incident.Record) (incident.Record, time.Duration) {
		same := now.LoopID == a.record.LoopID
		first = same && !now.Announced
		if !first && (!same || now.Former == nil) {
			return now, 0
		}
		now.Announced, now.Former = true, nil
		return now, now.TTL()
	})
	return first, err
}

func (r *Recorder) announceLater(a announcement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unannounced) >= maxUnsaved {
		r.lost.Inc()
		return
	}
	r.unannounced = append(r.unannounced, a)
}

// retryAnnouncements tries the announcements that failed, until one fails again.
func (r *Recorder) retryAnnouncements(ctx context.Context) {
	r.mu.Lock()
	all := r.unannounced
	r.unannounced = nil
	r.mu.Unlock()
	for i, a := range all {
		r.announce(ctx, a)
		if r.hasUnannounced() {
			for _, rest := range all[i+1:] {
				r.announceLater(rest)
			}
			return
		}
	}
}

func (r *Recorder) hasUnannounced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unannounced) > 0
}

func (r *Recorder) publish(ctx context.Context, e event.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	err = r.put(ctx, &nats.Msg{Subject: e.Subject(), Data: body, Header: e.Headers()})
	if !isUnderway(err) {
		r.nc.Wrote(schemas.StreamEvents, err)
	}
	if err != nil {
		return fmt.Errorf("publish event %s: %w", e.ID, err)
	}
	return nil
}

// put stores an event. While an earlier copy of it is being stored, it tries again: that
// copy is stored soon, or was lost with the stream's leader.
func (r *Recorder) put(ctx context.Context, msg *nats.Msg) error {
	for {
		_, err := r.nc.JetStream().PublishMsg(ctx, msg)
		if !isUnderway(err) {
			return err
		}
		select {
		case <-time.After(underwayPause):
		case <-ctx.Done():
			return err
		}
	}
}

const (
	// codeUnderway is JetStream's error code for a message with the same id as another
	// message that is not stored yet.
	codeUnderway jetstream.ErrorCode = 10158
	// underwayPause is the pause before such a message is sent again.
	underwayPause = 100 * time.Millisecond
)

func isUnderway(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == codeUnderway
}
