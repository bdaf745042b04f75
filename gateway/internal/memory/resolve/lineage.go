package resolve

import (
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
)

const (
	// lineageAge is how long a conversation is remembered after its newest request, as
	// long as its tool rounds are.
	lineageAge = 30 * time.Minute
	// maxAgents bounds the agents whose conversations are remembered, and
	// maxConversations the conversations of each.
	maxAgents        = 8192
	maxConversations = 16
)

// lineage finds the earlier conversation of an agent that replaced its history by a
// summary. Such a conversation names no session and begins with the summary; it gets
// the session of the conversation that was summed up. lineage remembers the
// conversations that this gateway saw lately.
type lineage struct {
	mu sync.Mutex
	// agents has the conversations of each agent, the one with the newest request last.
	agents map[string][]*conversation
}

type conversation struct {
	session string
	// openings are the sessions that its summaries would imply by themselves, newest
	// last.
	openings    []string
	first, last time.Time
}

func newLineage() *lineage { return &lineage{agents: map[string][]*conversation{}} }

// session returns the session of an agent's conversation, given the session that its
// opening implies. compacted says that it begins with a summary.
func (l *lineage) session(agent, implied string, compacted bool, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	bounded.MakeRoom(l.agents, agent, maxAgents)
	all := slices.DeleteFunc(l.agents[agent], func(c *conversation) bool { return now.Sub(c.last) > lineageAge })
	at := slices.IndexFunc(all, func(c *conversation) bool { return c.session == implied || slices.Contains(c.openings, implied) })
	if at < 0 && compacted {
		if at = summedUp(all); at >= 0 {
			all[at].openings = append(all[at].openings, implied)
			all[at].openings = all[at].openings[max(0, len(all[at].openings)-maxConversations):]
		}
	}
	c := &conversation{session: implied, first: now}
	if at >= 0 {
		c = all[at]
		all = slices.Delete(all, at, at+1)
	}
	c.last = now
	all = append(all, c)
	l.agents[agent] = all[max(0, len(all)-maxConversations):]
	return c.session
}

// summedUp returns the index of the conversation that a new summary replaces: the
// newest one, if no other one went on beside it; else -1.
func summedUp(all []*conversation) int {
	newest := len(all) - 1
	if newest < 0 || newest > 0 && !all[newest-1].last.Before(all[newest].first) {
		return -1
	}
	return newest
}
