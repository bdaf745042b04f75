package checker

import (
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
)

// home returns the detector for a check; "" if none is known by name, or one of this process
// decides. One detector decides all checks of a caller and has their records in memory. If a
// caller alone makes more than half of a detector's work, its sessions are split between two
// detectors: most records belong to one session.
//
// alone is set if all gateways that hear the same heartbeats send the caller's checks to this
// detector, shared if two detectors get them.
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
	// heatSlots is the number of counters; callers with the same slot count together.
	heatSlots = 1024
	// heatLasts is the number of checks after which all counts are halved.
	heatLasts = 1 << 14
	// heatFrom is the least number of checks of a hot caller.
	heatFrom = 64
)

// heat counts the latest checks of each caller.
type heat struct {
	mu    sync.Mutex
	slots [heatSlots]uint32
	all   uint32
}

// hot counts a check of a caller, and reports whether the caller makes more than half of one
// detector's work, if n share all of it equally.
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

// lane has the checks for one detector, or for any if it has no name.
type lane struct {
	name string
	// waiting are the checks that wait for a message; callers take turns. patience are those
	// that may wait longer than the timeout, which share no message with others.
	waiting, patience fair.Queue[*call]
	// turn is set if the next message is for patience.
	turn bool
	// sent is the number of messages in flight that count for maxSent, asked that of their
	// checks.
	sent, asked int
	// answered is the time of the last decision; until then, the detector was busy with other
	// checks.
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

// queued returns how many checks wait for a message.
func (l *lane) queued() int { return l.waiting.Len() + l.patience.Len() }

// queued returns how many checks wait for messages in all lanes, and how many of them are the
// caller's; the lock is held.
func (c *Checker) queued(caller fair.Caller) (all, own int) {
	for _, l := range c.lanes {
		all += l.queued()
		own += l.waiting.LenOf(caller) + l.patience.LenOf(caller)
	}
	return all, own
}
