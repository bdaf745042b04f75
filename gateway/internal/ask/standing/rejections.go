package standing

import (
	"sync"
	"time"
)

const (
	// rejectionFor is how long a conversation is remembered after it was last rejected.
	rejectionFor = 15 * time.Minute
	// maxRejections bounds the conversations that are remembered.
	maxRejections = 10_000
	// maxTimes is the highest count that is distinguished.
	maxTimes = 3
)

// Conversation identifies a conversation by its caller and its session, or the blocked
// fingerprint if it has no session.
type Conversation struct{ Caller, Session string }

// Rejections remembers which conversations were rejected, and how often they came back. The
// zero value is ready to use. It is safe for concurrent use.
type Rejections struct {
	mu    sync.Mutex
	known map[Conversation]rejection
	// lastSweep is the time of the last removal of expired conversations.
	lastSweep time.Time
}

type rejection struct {
	times    uint8
	answered time.Time
}

// Times returns how often a conversation came back after its first rejection, this time
// included. A request that arrived before the last rejection was sent does not count: its
// client could not have heeded it.
func (t *Rejections) Times(arrived time.Time, c Conversation) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, known := t.known[c]
	switch {
	case !known || arrived.Sub(k.answered) >= rejectionFor:
		return 0
	case arrived.After(k.answered):
		return min(int(k.times)+1, maxTimes)
	default:
		return int(k.times)
	}
}

// Answered records a rejection of a conversation; times is the result of Times.
func (t *Rejections) Answered(now time.Time, c Conversation, times int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[Conversation]rejection{}
	}
	if _, known := t.known[c]; !known && len(t.known) >= maxRejections {
		t.sweep(now)
	}
	t.known[c] = rejection{uint8(min(times, maxTimes)), now}
}

// sweep drops expired conversations. If that is not enough, or was done less than a minute
// ago, it drops all: a client that keeps changing its name starts over.
func (t *Rejections) sweep(now time.Time) {
	if now.Sub(t.lastSweep) >= time.Minute {
		t.lastSweep = now
		for c, k := range t.known {
			if now.Sub(k.answered) >= rejectionFor {
				delete(t.known, c)
			}
		}
	}
	if len(t.known) >= maxRejections {
		clear(t.known)
	}
}
