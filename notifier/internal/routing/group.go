package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/silence"
)

const (
	// MaxLoops bounds the loops of a group. A full group is due at once.
	MaxLoops = 100
	// maxFindings bounds the kept findings of an event.
	maxFindings = 5
	// maxEnded bounds the ids of ended loops in a group.
	maxEnded = 64
	// maxOpen is the time without an event after which a loop is dropped, because its
	// loop.resolved was lost.
	maxOpen = 48 * time.Hour
)

// Group is the state of a group at one endpoint.
type Group struct {
	// Route and Key name the group.
	Route string `json:"route"`
	Key   string `json:"key"`
	Loops []Loop `json:"loops,omitempty"`
	// Due is when to call Collect; zero if not before the next event.
	Due time.Time `json:"due,omitzero"`
	// SentAt is the time of the last message; zero if there was none.
	SentAt time.Time `json:"sent_at,omitzero"`
	// Messages counts the messages.
	Messages int `json:"messages,omitempty"`
	// Ended are the ids of the loops that ended last, so that a late event reopens none.
	Ended []string `json:"ended,omitempty"`
}

// Loop is the state of a loop in a group.
type Loop struct {
	// Event is the loop's event in the next message: the newest one that causes a message,
	// updated with the data of later ones.
	Event event.Event `json:"event"`
	// Pending reports that Event has not been sent.
	Pending bool `json:"pending,omitempty"`
	// Batched reports that the loop is in the batch in flight.
	Batched bool `json:"batched,omitempty"`
	// Sent reports that a message about the open loop was sent.
	Sent bool `json:"sent,omitempty"`
	// Over reports that the loop has ended, but ends cause no message.
	Over bool `json:"over,omitempty"`
	// Silenced reports that a message was suppressed.
	Silenced bool `json:"silenced,omitempty"`
}

func (l *Loop) ended() bool { return l.Over || l.Event.Type == event.Resolved }

// Batch is the content of one message.
type Batch struct {
	ID       string        `json:"id"`
	Key      string        `json:"key"`
	Resolved bool          `json:"resolved,omitempty"`
	Events   []event.Event `json:"events"`
}

// Add returns the group, which is zero at first, with an event. Known or older events change
// nothing.
func (r *Route) Add(g Group, e *event.Event, now time.Time) Group {
	id := e.Data.LoopID
	g.Route, g.Key, g.Loops = r.Name, r.Key(e), slices.Clone(g.Loops)
	i := slices.IndexFunc(g.Loops, func(l Loop) bool { return l.Event.Data.LoopID == id })
	switch {
	case i < 0 && slices.Contains(g.Ended, id), i >= 0 && !newer(e, &g.Loops[i]):
		return g
	case e.Type == event.Resolved && !slices.Contains(g.Ended, id):
		g.Ended = append(slices.Clone(g.Ended[max(0, len(g.Ended)-maxEnded+1):]), id)
	}
	if i < 0 {
		if !r.Wants(e.Type) {
			return g // no message was sent about the loop
		}
		g.Loops = append(g.Loops, Loop{})
		i = len(g.Loops) - 1
	}
	g.Loops[i] = r.update(g.Loops[i], e)
	if l := &g.Loops[i]; l.Over && !l.Pending && !l.Batched {
		g.Loops = slices.Delete(g.Loops, i, i+1)
	}
	return r.schedule(bound(g), now)
}

// update returns a loop with an event. Until a message about the open loop was sent, a later
// event does not replace the first one: the first message tells how the loop began.
func (r *Route) update(l Loop, e *event.Event) Loop {
	begun, resolved := l.Sent || l.Batched, e.Type == event.Resolved
	switch wanted := r.Wants(e.Type); {
	case l.Event.ID == "", wanted && (begun || resolved):
		l.Event, l.Pending = compact(e), true
	case resolved:
		l.Over = true
	default:
		before := l.Event
		l.Event = compact(e)
		l.Event.ID, l.Event.Type, l.Event.Event = before.ID, before.Type, before.Event
	}
	if resolved && l.Sent {
		l.Silenced = false // its end is sent in any case
	}
	return l
}

// newer reports whether an event is newer than the state of its loop.
func newer(e *event.Event, l *Loop) bool {
	if e.ID == l.Event.ID || l.ended() && e.Type != event.Resolved {
		return false
	}
	return e.Type == event.Resolved || !e.Timestamp.Before(l.Event.Timestamp)
}

// compact bounds the size of a stored event.
func compact(e *event.Event) event.Event {
	c := *e
	c.Data.Findings = slices.Clone(c.Data.Findings[:min(len(c.Data.Findings), maxFindings)])
	return c
}

// bound drops the oldest loops without a pending event while there are too many.
func bound(g Group) Group {
	for len(g.Loops) > MaxLoops {
		i := slices.IndexFunc(g.Loops, func(l Loop) bool { return !l.Pending })
		if i < 0 {
			break
		}
		g.Loops = slices.Delete(g.Loops, i, i+1)
	}
	return g
}

// schedule sets Due from the pending events and the time of the last message.
func (r *Route) schedule(g Group, now time.Time) Group {
	pending := slices.ContainsFunc(g.Loops, func(l Loop) bool { return l.Pending && !l.Silenced })
	var due time.Time
	switch {
	case !pending:
		return r.scheduleRepeat(g, now)
	case len(g.Loops) >= MaxLoops:
		due = now
	case g.SentAt.IsZero():
		due = now.Add(r.GroupWait)
	default:
		due = later(now, g.SentAt.Add(r.GroupInterval))
	}
	if g.Due.IsZero() || due.Before(g.Due) {
		g.Due = due
	}
	return g
}

// scheduleRepeat sets Due for a group without pending events, which may have to be repeated.
func (r *Route) scheduleRepeat(g Group, now time.Time) Group {
	open := slices.ContainsFunc(g.Loops, func(l Loop) bool { return l.Sent && !l.ended() })
	if open && r.RepeatInterval > 0 {
		if due := later(now, g.SentAt.Add(r.RepeatInterval)); g.Due.IsZero() || due.Before(g.Due) {
			g.Due = due
		}
	}
	return g
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Collect returns the group and the batch to send now, nil if there is none. Until Sent, it
// changes only Due, and loops that are silenced or dropped.
//
// A silence suppresses messages about open loops. If such a loop is still open when the
// silence ends or is expired, the message follows. The end of a loop is sent only if its
// beginning was sent, silenced or not.
func (r *Route) Collect(g Group, silences []silence.Silence, now time.Time) (Group, *Batch) {
	if (g.Due.IsZero() || now.Before(g.Due)) && !lifted(&g, silences, now) {
		return g, nil
	}
	repeat := r.RepeatInterval > 0 && !g.SentAt.IsZero() && !now.Before(g.SentAt.Add(r.RepeatInterval))
	wake := time.Time{}
	var kept []Loop
	var events []event.Event
	cause := false
	for _, l := range g.Loops {
		until := silence.Until(silences, &l.Event, now)
		switch {
		case now.Sub(l.Event.Timestamp) > maxOpen && !l.Pending,
			l.ended() && !l.Sent && (l.Silenced || !until.IsZero()):
			continue
		case !l.ended() && !until.IsZero():
			l.Silenced, l.Pending = true, true
			wake = earlier(wake, until)
		default:
			cause = cause || l.Pending || repeat && !l.ended()
			l.Silenced, l.Batched = false, true
			events = append(events, l.Event)
		}
		kept = append(kept, l)
	}
	g.Loops, g.Due = kept, wake
	if !cause {
		for i := range g.Loops {
			g.Loops[i].Batched = false
		}
		return r.schedule(g, now), nil
	}
	g.Due = now
	return g, r.batch(g, events, repeat)
}

// lifted reports whether a silence that suppressed a loop has ended.
func lifted(g *Group, silences []silence.Silence, now time.Time) bool {
	return slices.ContainsFunc(g.Loops, func(l Loop) bool { return l.Silenced && silence.Until(silences, &l.Event, now).IsZero() })
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// batch returns the batch of events, sorted by the begin of their loops.
func (r *Route) batch(g Group, events []event.Event, repeat bool) *Batch {
	slices.SortStableFunc(events, func(a, b event.Event) int { return a.Data.FirstSeen.Compare(b.Data.FirstSeen) })
	b := &Batch{Key: g.Key, Events: events, ID: events[0].ID, Resolved: true}
	for i := range events {
		b.Resolved = b.Resolved && events[i].Type == event.Resolved
	}
	if len(events) > 1 || repeat {
		b.ID = batchID(g, events)
	}
	return b
}

// batchID returns an id that depends only on the message and its content.
func batchID(g Group, events []event.Event) string {
	h := sha256.New()
	add := func(s string) { h.Write(append([]byte(s), 0)) }
	add(g.Route)
	add(g.Key)
	add(g.SentAt.UTC().Format(time.RFC3339Nano))
	for i := range events {
		add(events[i].ID)
	}
	return "group-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Sent returns the group after a batch was sent or given up. Events that were added since
// Collect are sent with the next message.
func (r *Route) Sent(g Group, b *Batch, now time.Time) Group {
	g.SentAt, g.Due = now, time.Time{}
	g.Messages++
	sent := map[string]string{}
	for i := range b.Events {
		sent[b.Events[i].Data.LoopID] = b.Events[i].ID
	}
	var kept []Loop
	for _, l := range g.Loops {
		id, included := sent[l.Event.Data.LoopID]
		l.Batched = false
		if included {
			l.Sent = true
			l.Pending = l.Pending && id != l.Event.ID
		}
		if !l.ended() || l.Pending {
			kept = append(kept, l)
		}
	}
	g.Loops = kept
	return r.wake(r.schedule(g, now), now)
}

// wake makes a group with silenced loops due, since only Collect knows when their silences
// end.
func (r *Route) wake(g Group, now time.Time) Group {
	if g.Due.IsZero() && slices.ContainsFunc(g.Loops, func(l Loop) bool { return l.Silenced }) {
		g.Due = now
	}
	return g
}
