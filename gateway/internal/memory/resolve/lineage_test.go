package resolve

import (
	"fmt"
	"testing"
	"time"
)

// seen is a request of a conversation: the agent, the session that its opening
// implies, whether that is a summary, and the minute.
type seen struct {
	agent, implied string
	compacted      bool
	minute         int
	want           string
}

func TestLineage(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string][]seen{
		"a conversation keeps its session": {{"a", "s", false, 0, "s"}, {"a", "s", false, 1, "s"}},
		"a summary goes on":                {{"a", "s", false, 0, "s"}, {"a", "sum", true, 1, "s"}, {"a", "sum", true, 2, "s"}},
		"a summary of a summary goes on":   {{"a", "s", false, 0, "s"}, {"a", "sum", true, 1, "s"}, {"a", "sum2", true, 2, "s"}, {"a", "sum", true, 3, "s"}},
		"another opening is another":       {{"a", "s", false, 0, "s"}, {"a", "other", false, 1, "other"}},
		"another agent's is another":       {{"a", "s", false, 0, "s"}, {"b", "sum", true, 1, "sum"}},
		"a summary of nothing":             {{"a", "sum", true, 0, "sum"}},
		"of a conversation long ago":       {{"a", "s", false, 0, "s"}, {"a", "sum", true, 31, "sum"}},
		"of a conversation half an hour ago": {
			{"a", "s", false, 0, "s"}, {"a", "sum", true, 30, "s"},
		},
		"of one of two at once, which can't be told": {
			{"a", "s", false, 0, "s"}, {"a", "u", false, 1, "u"}, {"a", "s", false, 2, "s"}, {"a", "sum", true, 3, "sum"},
		},
		"of the newer of two in turn": {
			{"a", "s", false, 0, "s"}, {"a", "u", false, 1, "u"}, {"a", "u", false, 2, "u"}, {"a", "sum", true, 3, "u"},
		},
		"of one that is as new as another": {
			{"a", "s", false, 1, "s"}, {"a", "u", false, 1, "u"}, {"a", "sum", true, 3, "sum"},
		},
	} {
		l := newLineage()
		for i, r := range requests {
			got := l.session(r.agent, r.implied, r.compacted, time.Unix(0, 0).Add(time.Duration(r.minute)*time.Minute))
			if got != r.want {
				t.Errorf("%s: request %d has session %s, want %s", name, i+1, got, r.want)
			}
		}
	}
}

func TestLineageIsBounded(t *testing.T) {
	t.Parallel()
	l, now := newLineage(), time.Unix(0, 0)
	for i := range maxAgents + 10 {
		l.session(fmt.Sprint("agent ", i), "s", false, now)
	}
	for i := range maxConversations + 10 {
		l.session("a", fmt.Sprint("s", i), false, now.Add(time.Duration(i)*time.Second))
	}
	for i := range maxConversations + 10 {
		l.session("b", fmt.Sprint("sum", i), true, now.Add(time.Duration(i)*time.Second))
	}
	if len(l.agents) > maxAgents {
		t.Errorf("%d agents are remembered", len(l.agents))
	}
	if n := len(l.agents["a"]); n != maxConversations {
		t.Errorf("%d conversations of one agent are remembered", n)
	}
	if all := l.agents["b"]; len(all) != 1 || len(all[0].openings) != maxConversations {
		t.Errorf("%d conversations, with openings %q", len(all), all[0].openings)
	}
}
