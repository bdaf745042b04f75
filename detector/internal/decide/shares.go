package decide

import (
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
)

const (
	// maxHolders bounds the callers whose shares are known.
	maxHolders = 4096
	// shareStep is the resolution at which the expiry of records is known.
	shareStep = time.Hour
	// minShare is what each caller may take in any case, in bytes.
	minShare = 64 << 10
)

// shares tracks how much of the bucket of budgets each caller's records take. Clients choose
// the keys of budgets by header, so that one could leave no room for others. The zero value is
// ready to use.
type shares struct {
	mu   sync.Mutex
	held map[string]map[int64]int64 // by caller, bytes by the end of the records in steps
}

// grant reports whether a caller may create a record of a size in bytes that lasts for a time.
// A caller may hold no more than what is left for all others.
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
	if sum > max(left, minShare) {
		return false
	}
	if own == nil {
		own = s.begin(caller)
	}
	own[at+int64(lasts/shareStep)] += size
	return true
}

// begin starts a caller's share, and forgets another one if there are too many.
func (s *shares) begin(caller string) map[int64]int64 {
	if s.held == nil {
		s.held = map[string]map[int64]int64{}
	}
	bounded.MakeRoom(s.held, caller, maxHolders)
	s.held[caller] = map[int64]int64{}
	return s.held[caller]
}
