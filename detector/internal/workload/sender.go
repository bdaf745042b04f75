package workload

import (
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxSessions bounds the sessions with their newest prompts, maxPrompts the prompts
	// with their senders, and maxSenders the senders of one prompt, newest last.
	maxSessions = 16384
	maxPrompts  = 4096
	maxSenders  = 32
)

// sender is a session that sent a prompt.
type sender struct {
	session string
	at      time.Time
	wentOn  bool
}

// sessionGoesOn records a request of a session that names itself, and reports whether the
// sessions that sent its prompt are separate agents: this session has sent another prompt
// before, or one of the others went on with another prompt. An agent that names a new session
// with each request has no session that goes on.
func (m *Memory) sessionGoesOn(check *checkpb.Check, c *checkpb.Counter, now time.Time) bool {
	session := c.GetPolicy() + check.GetIdentity().GetSession()
	prompt := c.GetPolicy() + string(c.GetFingerprint()[:askedEnd]) // policies see prompts differently
	since := now.Add(-time.Duration(c.GetWindowSeconds()) * time.Second)
	before := m.newest[session]
	goesOn := before != "" && before != prompt || slices.ContainsFunc(m.senders[prompt], func(s *sender) bool {
		return s.wentOn && (s.session == session || s.at.After(since))
	})
	if !check.GetPeek() {
		m.send(session, prompt, now)
	}
	return goesOn
}

// send records that a session sends a prompt, and so goes on from the one before.
func (m *Memory) send(session, prompt string, now time.Time) {
	if before := m.newest[session]; before != prompt {
		for _, s := range m.senders[before] {
			s.wentOn = s.wentOn || s.session == session
		}
	}
	bounded.MakeRoom(m.newest, session, maxSessions)
	bounded.MakeRoom(m.senders, prompt, maxPrompts)
	m.newest[session] = prompt
	for _, s := range m.senders[prompt] {
		if s.session == session {
			s.at = now
			return
		}
	}
	list := m.senders[prompt]
	m.senders[prompt] = append(list[max(0, len(list)-maxSenders+1):], &sender{session: session, at: now})
}
