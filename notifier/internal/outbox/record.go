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
	// maxSeen is how many ids of events a record remembers. An event that comes twice
	// comes again before the next one of its endpoint.
	maxSeen = 8
	// maxLoops bounds the loops of a record while a message is owed.
	maxLoops = 2 * routing.MaxLoops
	// keepIdle, keepOpen and keepOwed are how long a record is stored after its last
	// change: longer than an event can come again, than a loop is remembered whose end was
	// lost, and than any schedule lasts.
	keepIdle = 15 * time.Minute
	keepOpen = 3 * 24 * time.Hour
	keepOwed = 30 * 24 * time.Hour
)

// ErrFull means that a group is full of unsent loops.
var ErrFull = errors.New("the group is full of loops that wait for the endpoint")

// Record is what an endpoint is owed about one group of loops. The zero value is none.
type Record struct {
	Endpoint string        `json:"endpoint"`
	Group    routing.Group `json:"group"`
	// Batch is the message that is owed; nil for none.
	Batch  *routing.Batch `json:"batch,omitempty"`
	Queued time.Time      `json:"queued,omitzero"`
	// Attempts were made at the batch so far. The next one is due at Due.
	Attempts int       `json:"attempts,omitempty"`
	Due      time.Time `json:"due,omitzero"`
	// Claim is that of the notifier which makes an attempt; zero if none does.
	Claim Claim `json:"claim,omitzero"`
	// By is the notifier that changed the record last.
	By string `json:"by,omitempty"`
	// Seen are the ids of the newest events.
	Seen []string `json:"seen,omitempty"`
}

// Claim gives one attempt to one notifier.
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

// Add returns the record with an event. It returns false if the record stays as it is:
// it has that event already, or is full (ErrFull).
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

// collect returns the record with the batch that its group has to send now, if there is
// one and none is owed.
func (r Record) collect(route *routing.Route, silences []silence.Silence, now time.Time) Record {
	if r.Batch != nil {
		return r
	}
	if r.Group, r.Batch = route.Collect(r.Group, silences, now); r.Batch != nil {
		r.Queued, r.Attempts, r.Due = now, 0, now
	}
	return r
}

// Next returns when there is something to do: an attempt, or a batch to collect. It is
// zero if only an event can bring some.
func (r *Record) Next() time.Time {
	if r.Batch != nil {
		return r.Due
	}
	return r.Group.Due
}

// Owed reports whether a message is owed.
func (r *Record) Owed() bool { return r.Batch != nil }

// Silenced reports whether a silence hides a loop of the record.
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

// Take returns the record with a claim for the next attempt at its batch. It returns false
// if no attempt is due or another claim is valid; it replaces only an expired claim. The
// record may have changed in either case.
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
	// Over reports that the batch is not owed any more: delivered or given up.
	Over bool
	// Attempted reports that the attempt counts.
	Attempted bool
	// Wait is the time until the next attempt.
	Wait time.Duration
}

// Finish returns the record after an attempt at the batch with the given id. It returns
// false if the record does not owe that batch any more. If another notifier has the claim
// meanwhile, only the end of the batch is noted.
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
