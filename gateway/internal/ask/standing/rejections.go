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
	// maxTimes is the highest number of times that is distinguished.
	maxTimes = 3
)

// Conversation names a conversation of a caller: by its session, or without one by the
// blocked fingerprint.
type Conversation struct{ Caller, Session string }

// Rejections remembers which conversations were rejected, and how often they came back
// nevertheless. The zero value is ready to use; many goroutines may use it at once.
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

// Times returns how often the conversation of a rejected request came back after it had
// been rejected, this time included; 0 the first time. A request that arrived before the
// last answer was sent could not heed that.
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

// Answered notes that a conversation was rejected, for the times-th time after the first.
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

// sweep drops expired conversations, and all if that is not enough or was tried a moment
// ago: whoever is rejected under ever new names restarts.
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
