package resolve

import (
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
)

const (
	// lineageTTL is the time for which a conversation is remembered after its newest request,
	// the same as for its tool rounds.
	lineageTTL = 30 * time.Minute
	// maxAgents is the maximum number of agents, and maxConversations the maximum number of
	// conversations of each.
	maxAgents        = 8192
	maxConversations = 16
)

// lineage finds the earlier conversation of an agent that replaced its history by a summary.
// The new conversation begins with the summary and names no session; it gets the session of
// the earlier one. lineage remembers the recent conversations at this gateway.
type lineage struct {
	mu sync.Mutex
	// agents has the conversations of each agent, the one with the newest request last.
	agents map[string][]*conversation
}

type conversation struct {
	session string
	// openings are the sessions that its summaries imply by themselves, newest last.
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
	all := slices.DeleteFunc(l.agents[agent], func(c *conversation) bool { return now.Sub(c.last) > lineageTTL })
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

// summedUp returns the index of the conversation that a new summary replaces: the newest
// one, unless another one continued at the same time; else -1.
func summedUp(all []*conversation) int {
	newest := len(all) - 1
	if newest < 0 || newest > 0 && !all[newest-1].last.Before(all[newest].first) {
		return -1
	}
	return newest
}
