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
	// MaxLoops bounds the loops of a group. A group that reaches it is due at once.
	MaxLoops = 100
	// maxFindings bounds the findings that are kept of an event.
	maxFindings = 5
	// maxOpen is the time without an event after which a loop is forgotten. Its
	// loop.resolved was lost.
	maxOpen = 48 * time.Hour
)

// Group is the state of a group at one endpoint.
type Group struct {
	// Route and Key name the group.
	Route string `json:"route"`
	Key   string `json:"key"`
	Loops []Loop `json:"loops,omitempty"`
	// Due is the time from which Collect has work to do; zero if only an event can bring
	// some.
	Due time.Time `json:"due,omitzero"`
	// SentAt is the time of the last message; zero if there was none.
	SentAt time.Time `json:"sent_at,omitzero"`
	// Messages counts the messages.
	Messages int `json:"messages,omitempty"`
}

// Loop is the state of a loop in a group.
type Loop struct {
	// Event is the newest event.
	Event event.Event `json:"event"`
	// Pending reports that the newest state is not sent yet.
	Pending bool `json:"pending,omitempty"`
	// Sent reports that a message said that the loop is open.
	Sent bool `json:"sent,omitempty"`
	// Silenced reports that a message was suppressed.
	Silenced bool `json:"silenced,omitempty"`
}

func (l *Loop) resolved() bool { return l.Event.Type == event.Resolved }

// Batch is the content of one message.
type Batch struct {
	ID       string        `json:"id"`
	Key      string        `json:"key"`
	Resolved bool          `json:"resolved,omitempty"`
	Events   []event.Event `json:"events"`
}

// Add returns the group with an event added. The group is zero for the first one. An event
// that the group has already, or that is older than what it has, changes nothing.
func (r *Route) Add(g Group, e *event.Event, now time.Time) Group {
	g.Route, g.Key, g.Loops = r.Name, r.Key(e), slices.Clone(g.Loops)
	i := slices.IndexFunc(g.Loops, func(l Loop) bool { return l.Event.Data.LoopID == e.Data.LoopID })
	if i < 0 {
		if !r.Wants(e.Type) {
			return g // nothing was said about the loop
		}
		g.Loops = append(g.Loops, Loop{})
		i = len(g.Loops) - 1
	} else if !newer(e, &g.Loops[i].Event) {
		return g
	}
	l := &g.Loops[i]
	l.Event, l.Pending = compact(e), l.Pending || r.Wants(e.Type)
	switch {
	case e.Type == event.Resolved && !l.Pending:
		g.Loops = slices.Delete(g.Loops, i, i+1)
	case e.Type == event.Resolved && l.Sent:
		l.Silenced = false // its end is sent at any rate
	}
	return r.schedule(bound(g), now)
}

// newer reports whether an event follows another one of the same loop.
func newer(e, than *event.Event) bool {
	if e.ID == than.ID || than.Type == event.Resolved && e.Type != event.Resolved {
		return false
	}
	return e.Type == event.Resolved || !e.Timestamp.Before(than.Timestamp)
}

// compact bounds the size of an event that is stored.
func compact(e *event.Event) event.Event {
	c := *e
	c.Data.Findings = slices.Clone(c.Data.Findings[:min(len(c.Data.Findings), maxFindings)])
	return c
}

// bound drops the oldest loops about which all is said while there are too many. What is
// pending stays.
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

// schedule sets Due by what is pending and when the last message was sent.
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

// scheduleRepeat sets Due if nothing is to be sent but, perhaps, a repetition.
func (r *Route) scheduleRepeat(g Group, now time.Time) Group {
	open := slices.ContainsFunc(g.Loops, func(l Loop) bool { return l.Sent && !l.resolved() })
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

// Collect returns the group and the batch that is to be sent now, nil if there is none.
// The group stays as it is until Sent, apart from loops that are silenced or forgotten, and
// from Due.
//
// A silence suppresses messages about loops that are open. If such a loop is still open
// when the silence ends, the message follows. The end of a loop is sent only if its
// beginning was, silenced or not.
func (r *Route) Collect(g Group, silences []silence.Silence, now time.Time) (Group, *Batch) {
	if g.Due.IsZero() || now.Before(g.Due) {
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
			l.resolved() && !l.Sent && (l.Silenced || !until.IsZero()):
			continue
		case !l.resolved() && !until.IsZero():
			l.Silenced, l.Pending = true, true
			wake = earlier(wake, until)
		default:
			cause = cause || l.Pending || repeat && !l.resolved()
			l.Silenced = false
			events = append(events, l.Event)
		}
		kept = append(kept, l)
	}
	g.Loops, g.Due = kept, wake
	if !cause {
		return r.schedule(g, now), nil
	}
	g.Due = now
	return g, r.batch(g, events, repeat)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// batch returns the batch of some events. The order is that in which the loops began.
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

// batchID returns the same id for the same content of the same message.
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

// Sent returns the group after a batch was sent, or given up. What was added to the group
// since Collect is sent with the next message.
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
		if included {
			l.Sent = true
			l.Pending = l.Pending && id != l.Event.ID
		}
		if !l.resolved() || l.Pending {
			kept = append(kept, l)
		}
	}
	g.Loops = kept
	return r.wake(r.schedule(g, now), now)
}

// wake makes a group due that has silenced loops, since only Collect knows when their
// silences end.
func (r *Route) wake(g Group, now time.Time) Group {
	if g.Due.IsZero() && slices.ContainsFunc(g.Loops, func(l Loop) bool { return l.Silenced }) {
		g.Due = now
	}
	return g
}
