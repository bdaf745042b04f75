package evidence

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// A step is a request of a session, or the end of an answer.
type step struct {
	session, body string
	answered      bool // at once
	after         time.Duration
	peek          bool
	// together says that the request counts for all sessions together.
	together bool
}

func TestAgentThatNamesNewSessionsIsToldFromAgentsOfTheirOwn(t *testing.T) {
	t.Parallel()
	set := policies(t, "{prompt: {scope: named, window_seconds: 60}}")
	chat := goneOn(chat)
	for name, steps := range map[string][]step{
		"an agent that names a new session with each request": {
			{session: "a", body: chat, answered: true, together: true}, {session: "b", body: chat, answered: true, together: true},
			{session: "c", body: chat, answered: true, together: true},
		},
		"a session that goes on with its prompt": {
			{session: "a", body: chat, answered: true, together: true}, {session: "a", body: chat, answered: true, together: true},
		},
		"agents at the same time": {
			{session: "a", body: chat, together: true}, {session: "b", body: chat, together: false},
		},
		"agents at the same time, one of them long ago": {
			{session: "a", body: chat, together: true}, {session: "b", body: chat, after: 2 * time.Minute, together: true},
		},
		"a peek, which leaves nothing": {
			{session: "a", body: chat, peek: true, together: true}, {session: "b", body: chat, answered: true, together: true},
		},
	} {
		memory, now := NewMemory(), start
		for i, s := range steps {
			now = now.Add(s.after)
			in := asked{body: s.body, session: s.session, caller: "k", set: func(in *Input) { in.Memory, in.Now, in.Peek = memory, now, s.peek }}.input(t, set)
			e := Build(in)
			if together := e.Check.GetCounters()[0].GetTogether() != nil; together != s.together {
				t.Errorf("%s: request %d counts together: %t, want %t", name, i+1, together, s.together)
			}
			if s.answered {
				memory.Answered(&e.Waiting)
				memory.Answered(&e.Waiting) // changes nothing
			}
		}
	}
}

// goneOn returns the body of a request with an answer and the next message.
func goneOn(body string) string {
	return strings.TrimSuffix(body, "]}") + `,{"role":"assistant","content":"Not yet."},{"role":"user","content":"Go on."}]}`
}

func TestSendersOfAPromptAreBounded(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	for i := range maxSenders + 5 {
		m.send(fmt.Sprint("s", i), "prompt", start)
	}
	if n := len(m.senders["prompt"]); n != maxSenders {
		t.Errorf("%d senders are known, want %d", n, maxSenders)
	}
	again := m.send(fmt.Sprint("s", maxSenders), "prompt", start.Add(time.Hour))
	if !again.at.Equal(start.Add(time.Hour)) || len(m.senders["prompt"]) != maxSenders {
		t.Errorf("%+v", again)
	}
}

func TestPromptThatChangesItsUserIsCounted(t *testing.T) {
	t.Parallel()
	set := policies(t, "{prompt: {window_seconds: 60, max_hits: 5}}")
	long := fmt.Sprintf(`{"model":"m","user":"u","messages":[{"role":"user","content":%q}]}`, strings.Repeat("Fix the parser. ", 30))
	short := `{"model":"m","user":"u","messages":[{"role":"user","content":"hi"}]}`
	many := `{"model":"m","user":"u","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}]}`
	anonymous := strings.Replace(long, `"user":"u",`, "", 1)
	for name, c := range map[string]struct {
		body   string
		second string // caller
		after  time.Duration
		set    func(*Input)
		want   bool
	}{
		"another user":                   {body: long, second: "b", want: true},
		"another user, in many messages": {body: many, second: "b", want: true},
		"the same user":                  {body: long, second: "a"},
		"another user, much later":       {body: long, second: "b", after: time.Hour},
		"what many people ask":           {body: short, second: "b"},
		"no user":                        {body: anonymous, second: "b"},
		"a peek":                         {body: long, second: "b", set: func(in *Input) { in.Peek = true }},
		"no key":                         {body: long, second: "b", set: func(in *Input) { in.Key = "" }},
	} {
		memory := NewMemory()
		of := func(caller string, now time.Time) Evidence {
			return asked{body: c.body, caller: caller, set: func(in *Input) {
				in.Memory, in.Key, in.Now = memory, "key", now
				if c.set != nil {
					c.set(in)
				}
			}}.of(t, set)
		}
		of("a", start)
		e := of(c.second, start.Add(c.after))
		var got *checkpb.Counter
		for _, counter := range e.Check.GetCounters() {
			if counter.GetDetector() == finding.Users {
				got = counter
			}
		}
		if (got != nil) != c.want {
			t.Errorf("%s: counted by %v, want %t", name, got, c.want)
		}
		if got != nil && (got.GetSteps()[0].GetAction() != checkpb.Action_ACTION_WARN || got.GetThreshold()+1 != got.GetSteps()[0].GetAt()) {
			t.Errorf("%s: %v", name, got)
		}
	}
	e := asked{body: long, set: func(in *Input) { in.Key = "key" }}.of(t, policies(t, "{semantic: {}, tool: {}}"))
	if len(e.Check.GetCounters()) > 0 {
		t.Errorf("a policy without prompts counts %v", e.Check.GetCounters())
	}
}

func TestAskersAreBounded(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	for i := range maxAskers + 5 {
		m.changed(fingerprint.Bytes(fmt.Append(nil, i)), "c", time.Minute, start)
	}
	if n := len(m.askers); n != maxAskers {
		t.Errorf("%d prompts are known, want %d", n, maxAskers)
	}
}

func TestRequestsShareTheMemory(t *testing.T) {
	t.Parallel()
	set, memory := policies(t, "{prompt: {scope: named}}"), NewMemory()
	var group sync.WaitGroup
	for i := range 8 {
		in := asked{body: chat, session: fmt.Sprint("s", i%2), caller: "k", set: func(in *Input) { in.Memory = memory }}.input(t, set)
		group.Go(func() {
			for range 20 {
				e := Build(in)
				memory.Answered(&e.Waiting)
			}
		})
	}
	group.Wait()
	for prompt, senders := range memory.senders {
		for _, s := range senders {
			if s.open != 0 {
				t.Errorf("%d requests of %s for %s wait although all are answered", s.open, s.session, prompt)
			}
		}
	}
}
