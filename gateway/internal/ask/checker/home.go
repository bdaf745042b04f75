package checker

import (
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
)

// home returns the detector that a check goes to; "" if no detector is known by its name
// or one of this process decides. One detector decides all checks of a caller, and has their
// records in its memory. Those of a caller that alone is more than half of a detector's
// work go to two, each session to one of them: its records are its own, for the most part.
//
// alone says that no gateway sends the caller's checks to another detector while all hear
// the same beats, and shared that its checks go to two.
func (c *Checker) home(check *checkpb.Check) (name string, alone, shared bool) {
	key := fleet.Hash(check.GetIdentity().GetCaller())
	choice := c.fleet.Choose(key)
	switch {
	case c.inbox.Near(schemas.SubjectCheck):
		return "", choice.N == 1, false
	case choice.N < 2 || !c.heat.hot(key, choice.N):
		return choice.First, choice.N > 0, false
	case fleet.Hash(check.GetIdentity().GetSession())&1 == 0:
		return choice.First, false, true // where it is not hot, they go elsewhere
	default:
		return choice.Second, false, true
	}
}

const (
	// heatSlots is how many callers are told apart; those that share a slot count together.
	heatSlots = 1024
	// heatLasts is the number of checks after which all counts are halved.
	heatLasts = 1 << 14
	// heatFrom is the number of checks from which a caller can be hot.
	heatFrom = 64
)

// heat counts the latest checks of each caller.
type heat struct {
	mu    sync.Mutex
	slots [heatSlots]uint32
	all   uint32
}

// hot notes a check of a caller, and reports whether its checks are more than half of an
// equal share of n detectors.
func (h *heat) hot(caller uint64, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all >= heatLasts {
		h.all = 0
		for i := range h.slots {
			h.slots[i] /= 2
			h.all += h.slots[i]
		}
	}
	slot := &h.slots[caller%heatSlots]
	*slot++
	h.all++
	return *slot >= heatFrom && uint64(*slot)*2*uint64(n) > uint64(h.all)
}

// lane has the checks for one detector, or, without a name, for any of them.
type lane struct {
	name string
	// waiting are the checks that wait for a message; their callers take turns. patience are
	// those of them that may wait beyond the timeout, which share no message with the others.
	waiting, patience fair.Queue[*call]
	// turn says that the next message is for patience.
	turn bool
	// sent is the number of messages on their way that take part in the queue, asked
	// that of the checks in them.
	sent, asked int
	// answered is the time of the last decision: until then, the detector was busy with
	// other checks.
	answered time.Time
}

// lane returns the lane of a detector; the lock is held.
func (c *Checker) lane(name string) *lane {
	l := c.lanes[name]
	if l == nil {
		l = &lane{name: name}
		c.lanes[name] = l
	}
	return l
}

// queued is how many checks wait for a message.
func (l *lane) queued() int { return l.waiting.Len() + l.patience.Len() }

// queued is how many checks wait for messages, and how many of them are a caller's; the
// lock is held.
func (c *Checker) queued(caller fair.Caller) (all, own int) {
	for _, l := range c.lanes {
		all += l.queued()
		own += l.waiting.LenOf(caller) + l.patience.LenOf(caller)
	}
	return all, own
}
