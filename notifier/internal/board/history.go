package board

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/unloop/unloop/schemas/event"
)

const (
	// maxLoops bounds the loops that are known from events alone.
	maxLoops = 5000
	// maxEvents bounds the events that are kept for clients that reconnect.
	maxEvents = 1000
	// maxBody bounds the size of an event, in bytes. Larger ones are ignored.
	maxBody = 64 << 10
)

// types are the kept types of events.
var types = []event.Type{event.Detected, event.Ongoing, event.Resolved}

// Item is an event with its sequence in the stream.
type Item struct {
	Sequence uint64
	Type     event.Type
	Body     json.RawMessage
}

// History holds the newest events, and the loops that they describe.
type History struct {
	changed func()

	mu     sync.Mutex
	events []Item                        // in the order of the stream
	loops  *simplelru.LRU[string, *Loop] // by id, those with the newest events
}

func newHistory(changed func()) *History {
	return &History{changed: changed, loops: newest[*Loop](maxLoops)}
}

// Reset removes everything: the stream was recreated.
func (h *History) Reset() {
	defer h.changed()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = nil
	h.loops.Purge()
}

// Add adds the event with a sequence in the stream. It ignores what is not an event.
func (h *History) Add(sequence uint64, body []byte) {
	if len(body) > maxBody {
		return
	}
	e, err := event.Parse(body)
	if err != nil || e.Data.LoopID == "" || !slices.Contains(types, e.Type) {
		return
	}
	defer h.changed()
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.events); n > 0 && sequence <= h.events[n-1].Sequence {
		return
	}
	if len(h.events) >= 2*maxEvents {
		h.events = slices.Clone(h.events[maxEvents:])
	}
	h.events = append(h.events, Item{sequence, e.Type, body})
	h.fold(loopOf(&e))
}

// fold updates the loop of an event. The caller holds the lock.
func (h *History) fold(l Loop) {
	before, known := h.loops.Peek(l.LoopID)
	if !known {
		before = &Loop{}
	}
	l.course = before.after(&l)
	if l.State == Resolved || before.State != Resolved && !before.at.After(l.at) {
		h.loops.Add(l.LoopID, &l)
	}
}

// Keep keeps the last state of a loop whose record was dropped, since events say less. gone
// reports that the record was removed because the loop is over.
func (h *History) Keep(l Loop, gone bool) {
	if l.LoopID == "" {
		return
	}
	l.gone = gone
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, has := h.loops.Peek(l.LoopID); has {
		if known.LastSeen.After(l.LastSeen) {
			return
		}
		l.course = known.course
		if l.at = known.at; known.State == Resolved {
			l.State, l.Ends = known.State, known.Ends
		}
		*known = l
		return
	}
	h.fold(l)
}

// End marks a loop that is known from an event as over.
func (h *History) End(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, known := h.loops.Peek(id); known {
		l.gone = true
	}
}

// Loops returns the loops of the events, in no order.
func (h *History) Loops() []Loop {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Loop, 0, h.loops.Len())
	for _, l := range h.loops.Values() {
		all = append(all, *l)
	}
	return all
}

// Last returns the sequence of the newest event; 0 without events.
func (h *History) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == 0 {
		return 0
	}
	return h.events[len(h.events)-1].Sequence
}

// After returns the events after a sequence, in the order of the stream, and whether earlier
// ones may have been dropped.
func (h *History) After(sequence uint64) (items []Item, missed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, _ := slices.BinarySearchFunc(h.events, sequence+1, func(it Item, at uint64) int { return cmp.Compare(it.Sequence, at) })
	missed = i == 0 && len(h.events) > 0 && h.events[0].Sequence > sequence+1
	return slices.Clone(h.events[i:]), missed
}

// Newest returns up to most events, newest first.
func (h *History) Newest(most int) []Item {
	h.mu.Lock()
	defer h.mu.Unlock()
	items := slices.Clone(h.events[max(0, len(h.events)-most):])
	slices.Reverse(items)
	return items
}
