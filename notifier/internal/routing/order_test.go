package routing

import (
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

// slow adds events to a group whose endpoint answers only after the last of them, and
// returns what is sent.
func slow(route *Route, events ...*event.Event) []string {
	r := run{route: route}
	first := events[0]
	g := route.Add(Group{}, first, first.Timestamp)
	g, b := route.Collect(g, nil, first.Timestamp)
	for _, e := range events[1:] {
		g = route.Add(g, e, e.Timestamp)
	}
	if b != nil {
		r.sent = append(r.sent, "0:"+text(b))
		g = route.Sent(g, b, at(50))
	}
	r.group = g
	r.until(at(100_000))
	return r.sent
}

// The first message about a loop says how it began, whatever happens before it is sent, and
// a message is only sent for events of the types that a route has.
func TestMessagesBeginWithTheBeginning(t *testing.T) {
	t.Parallel()
	all := []event.Type{event.Detected, event.Ongoing, event.Resolved}
	detected, ongoing, resolved := anEvent(event.Detected, "1", 0), anEvent(event.Ongoing, "1", 10), anEvent(event.Resolved, "1", 20)
	for _, tt := range []struct {
		name   string
		route  Route
		events []*event.Event
		want   []string
	}{
		{"ongoing is not wanted, and the endpoint is slow", Route{}, []*event.Event{detected, ongoing}, []string{"0:D1"}},
		{"ongoing is not wanted, and the group waits", Route{GroupWait: time.Minute}, []*event.Event{detected, ongoing}, []string{"60:D1"}},
		{"the endpoint is slow", Route{Events: all}, []*event.Event{detected, ongoing}, []string{"0:D1", "50:O1"}},
		{"the group waits", Route{Events: all, GroupWait: time.Minute}, []*event.Event{detected, ongoing}, []string{"60:D1"}},
		{"the end is not wanted, and the endpoint is slow", Route{Events: all[:1]}, []*event.Event{detected, ongoing, resolved}, []string{"0:D1"}},
		{"the end is not wanted, and the group waits", Route{Events: all[:1], GroupWait: time.Minute}, []*event.Event{detected, resolved}, []string{"60:D1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if sent := slow(&tt.route, tt.events...); !slices.Equal(sent, tt.want) {
				t.Errorf("sent %q, want %q", sent, tt.want)
			}
		})
	}
}

// The message that is sent late has what is known by then.
func TestALateMessageHasTheNewestCounts(t *testing.T) {
	t.Parallel()
	route := &Route{GroupWait: time.Minute}
	g := route.Add(Group{}, anEvent(event.Detected, "1", 0), start)
	grown := anEvent(event.Ongoing, "1", 10)
	grown.Data.HitCount = 60
	_, b := route.Collect(route.Add(g, grown, at(10)), nil, at(60))
	if e := b.Events[0]; e.Type != event.Detected || e.Event != event.Detected || e.ID != b.ID || e.Data.HitCount != 60 {
		t.Errorf("sent %+v", e)
	}
}

// What comes after the end of a loop opens it no more, whether or not its end was sent.
func TestLateEventsOpenNoLoopAgain(t *testing.T) {
	t.Parallel()
	for _, events := range [][]event.Type{nil, {event.Detected, event.Ongoing, event.Resolved}, {event.Detected, event.Ongoing}} {
		r := run{route: &Route{Events: events}}
		r.add(anEvent(event.Detected, "1", 0))
		r.add(anEvent(event.Resolved, "1", 60))
		sent := slices.Clone(r.sent)
		r.add(anEvent(event.Ongoing, "1", 62))
		r.add(anEvent(event.Detected, "1", 63))
		r.add(anEvent(event.Resolved, "1", 64))
		r.until(at(100_000))
		r.want(t, sent...)
		if len(r.group.Loops) != 0 {
			t.Errorf("%v: the loop is open again", events)
		}
	}
}

// A silence that somebody ends hides nothing any more, whenever it was to end.
func TestASilenceThatEndsEarly(t *testing.T) {
	t.Parallel()
	r := run{route: &Route{Name: "all"}, silences: silenced(0, 50_000)}
	r.add(anEvent(event.Detected, "1", 10))
	r.until(at(300))
	r.want(t)
	var b *Batch
	if r.group, b = r.route.Collect(r.group, nil, at(300)); b == nil || text(b) != "D1" {
		t.Errorf("sent %+v", b)
	}
}
