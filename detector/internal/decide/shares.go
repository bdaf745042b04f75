package decide

import (
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
)

const (
	// maxHolders bounds the callers whose shares are known.
	maxHolders = 4096
	// shareStep is how exactly the end of a record is known.
	shareStep = time.Hour
	// sureShare is what each caller may take in any case, in bytes.
	sureShare = 64 << 10
)

// shares knows how much of the bucket of budgets the records that each caller began take.
// Whoever sends requests chooses the keys of budgets by header, and could leave no room to
// others. The zero value has none.
type shares struct {
	mu   sync.Mutex
	held map[string]map[int64]int64 // by caller, bytes by the end of the records in steps
}

// grant reports whether a caller may begin a record of a size that lasts for a time. It may
// not hold more than it leaves to all others.
func (s *shares) grant(caller string, size, left int64, lasts time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, sum := now.UnixNano()/int64(shareStep), size
	own := s.held[caller]
	for end, held := range own {
		if end < at {
			delete(own, end)
		} else {
			sum += held
		}
	}
	if sum > max(left, sureShare) {
		return false
	}
	if own == nil {
		own = s.begin(caller)
	}
	own[at+int64(lasts/shareStep)] += size
	return true
}

// begin begins a caller's share, and forgets another one if there are too many.
func (s *shares) begin(caller string) map[int64]int64 {
	if s.held == nil {
		s.held = map[string]map[int64]int64{}
	}
	bounded.MakeRoom(s.held, caller, maxHolders)
	s.held[caller] = map[int64]int64{}
	return s.held[caller]
}
