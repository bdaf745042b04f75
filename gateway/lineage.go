package gateway

import (
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/bounded"
)

const (
	// lineageAge is how long a conversation is remembered after its newest request, as
	// long as its tool rounds are.
	lineageAge = 30 * time.Minute
	// maxKin bounds the agents whose conversations are remembered, and maxConversations
	// those of each, newest last.
	maxKin           = 8192
	maxConversations = 16
)

// lineage gives a conversation that names no session, and begins with a summary, the
// session of the one that the summary is of: an agent that compacts its history goes
// on. It remembers the conversations that this gateway saw lately. The nil lineage
// knows none.
type lineage struct {
	mu  sync.Mutex
	kin map[string][]*conversation // by caller, instructions and tools
}

// conversation is what is remembered of one.
type conversation struct {
	session     string
	openings    []string // the sessions that its summaries would imply, newest last
	first, last time.Time
}

func newLineage() *lineage { return &lineage{kin: map[string][]*conversation{}} }

// session returns the session of a conversation whose opening implies derived.
// compacted says that it begins with a summary.
func (l *lineage) session(kin, derived string, compacted bool, now time.Time) string {
	if l == nil {
		return derived
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	bounded.MakeRoom(l.kin, kin, maxKin)
	all := slices.DeleteFunc(l.kin[kin], func(c *conversation) bool { return now.Sub(c.last) > lineageAge })
	at := slices.IndexFunc(all, func(c *conversation) bool { return c.session == derived || slices.Contains(c.openings, derived) })
	if at < 0 && compacted {
		if at = goesOn(all); at >= 0 {
			all[at].openings = append(all[at].openings, derived)
			all[at].openings = all[at].openings[max(0, len(all[at].openings)-maxConversations):]
		}
	}
	c := &conversation{session: derived, first: now}
	if at >= 0 {
		c = all[at]
		all = slices.Delete(all, at, at+1)
	}
	c.last = now
	all = append(all, c)
	l.kin[kin] = all[max(0, len(all)-maxConversations):]
	return c.session
}

// goesOn is the index of the conversation that a summary is of: the newest, if no
// other one went on beside it; -1 for none.
func goesOn(all []*conversation) int {
	newest := len(all) - 1
	if newest < 0 || newest > 0 && !all[newest-1].last.Before(all[newest].first) {
		return -1
	}
	return newest
}
