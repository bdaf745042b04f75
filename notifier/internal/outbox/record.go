package outbox

import (
	"errors"
	"slices"
	"time"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/silence"
	"github.com/unloop/unloop/schemas/storepb"
)

const (
	// maxSeen bounds the ids of events in a record. A redelivered event comes before the next
	// event of its endpoint.
	maxSeen = 8
	// maxLoops bounds the loops of a record while a message is pending.
	maxLoops = 2 * routing.MaxLoops
	// keepIdle, keepOpen and keepOwed are how long a record is stored after its last change:
	// longer than an event can be redelivered, than a loop without an end is kept, and than any
	// retry schedule lasts.
	keepIdle = 15 * time.Minute
	keepOpen = 3 * 24 * time.Hour
	keepOwed = 30 * 24 * time.Hour
)

// ErrFull means that a group has no room for another unsent loop.
var ErrFull = errors.New("the group is full of loops that wait for the endpoint")

// Record has the messages that are due to an endpoint about one group of loops. The zero value
// is none.
type Record struct {
	Endpoint string        `json:"endpoint"`
	Group    routing.Group `json:"group"`
	// Batch is the pending message; nil for none.
	Batch  *routing.Batch `json:"batch,omitempty"`
	Queued time.Time      `json:"queued,omitzero"`
	// Attempts is the number of attempts at the batch so far. The next one is due at Due.
	Attempts int       `json:"attempts,omitempty"`
	Due      time.Time `json:"due,omitzero"`
	// Claim is the claim of the notifier that makes an attempt; zero for none.
	Claim Claim `json:"claim,omitzero"`
	// By is the notifier that last changed the record.
	By string `json:"by,omitempty"`
	// Seen are the ids of the newest events.
	Seen []string `json:"seen,omitempty"`
}

// Claim reserves one attempt for one notifier.
type Claim struct {
	By string `json:"by"`
	// ID is unique among all claims.
	ID string `json:"id"`
}

// Parse reads what Append wrote.
func (r *Record) Parse(stored []byte) error { return storepb.ReadDocument(stored, r) }

// Append writes the record as a document.
func (r *Record) Append(b []byte) []byte { return storepb.AppendDocument(b, r) }

// Knows reports whether the record has an event, or its loop.
func (r *Record) Knows(e *event.Event) bool {
	return slices.Contains(r.Seen, e.ID) ||
		slices.ContainsFunc(r.Group.Loops, func(l routing.Loop) bool { return l.Event.Data.LoopID == e.Data.LoopID })
}

// Add returns the record with an event. It returns false if the record has the event already,
// or is full (ErrFull).
func (r Record) Add(e *event.Event, endpoint string, route *routing.Route, silences []silence.Silence, now time.Time) (Record, bool, error) {
	if slices.Contains(r.Seen, e.ID) {
		return r, false, nil
	}
	if len(r.Group.Loops) >= maxLoops && !r.Knows(e) {
		return r, false, ErrFull
	}
	kept := r.Seen[max(0, len(r.Seen)-maxSeen+1):]
	r.Seen = append(slices.Clone(kept), e.ID)
	r.Endpoint, r.Group = endpoint, route.Add(r.Group, e, now)
	return r.collect(route, silences, now), true, nil
}

// collect returns the record with the batch that its group has to send now, unless another one
// is pending.
func (r Record) collect(route *routing.Route, silences []silence.Silence, now time.Time) Record {
	if r.Batch != nil {
		return r
	}
	if r.Group, r.Batch = route.Collect(r.Group, silences, now); r.Batch != nil {
		r.Queued, r.Attempts, r.Due = now, 0, now
	}
	return r
}

// Next returns when the record needs work: an attempt, or a batch to collect. It is zero if it
// needs none until the next event.
func (r *Record) Next() time.Time {
	if r.Batch != nil {
		return r.Due
	}
	return r.Group.Due
}

// Owed reports whether a message is pending.
func (r *Record) Owed() bool { return r.Batch != nil }

// Silenced reports whether a loop of the record is silenced.
func (r *Record) Silenced() bool {
	return slices.ContainsFunc(r.Group.Loops, func(l routing.Loop) bool { return l.Silenced })
}

// TTL returns how long the record is stored.
func (r *Record) TTL() time.Duration {
	switch {
	case r.Batch != nil:
		return keepOwed
	case len(r.Group.Loops) > 0:
		return keepOpen
	default:
		return keepIdle
	}
}

// Take returns the record with a claim on the next attempt at its batch. It returns false if no
// attempt is due or another claim than the expired one is valid. The record may have changed
// in either case.
func (r Record) Take(claim, lapsed Claim, route *routing.Route, silences []silence.Silence, now time.Time) (Record, bool) {
	if r.Claim != (Claim{}) && r.Claim != lapsed {
		return r, false
	}
	r = r.collect(route, silences, now)
	r.Claim, r.By = Claim{}, claim.By
	if r.Batch == nil || now.Before(r.Due) {
		return r, false
	}
	r.Claim = claim
	return r, true
}

// Outcome says what happens to a batch after an attempt.
type Outcome struct {
	// Over reports that the batch was delivered or given up.
	Over bool
	// Attempted reports that the attempt counts.
	Attempted bool
	// Wait is the time until the next attempt.
	Wait time.Duration
}

// Finish returns the record after an attempt at the batch with an id. It returns false if that
// batch is no longer pending. If another notifier has taken the claim over, only the end of
// the batch counts.
func (r Record) Finish(claim Claim, id string, o Outcome, route *routing.Route, silences []silence.Silence, now time.Time) (Record, bool) {
	if r.Batch == nil || r.Batch.ID != id || !o.Over && r.Claim != claim {
		return r, false
	}
	r.Claim, r.By = Claim{}, claim.By
	if o.Attempted {
		r.Attempts++
	}
	if !o.Over {
		r.Due = now.Add(o.Wait)
		return r, true
	}
	r.Group = route.Sent(r.Group, r.Batch, now)
	r.Batch, r.Queued, r.Attempts, r.Due = nil, time.Time{}, 0, time.Time{}
	return r.collect(route, silences, now), true
}
