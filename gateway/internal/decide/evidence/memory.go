package evidence

import (
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

const (
	// maxPrompts bounds the number of prompts in Memory.senders, and maxSenders the number of
	// senders of each.
	maxPrompts = 4096
	maxSenders = 32
	// maxAskers bounds the number of prompts in Memory.askers.
	maxAskers = 8192
)

// Memory remembers who recently sent which prompts through this gateway. It is safe for
// concurrent use. Make it with NewMemory.
//
// The senders distinguish an agent that names a new session with each request from several
// agents with the same task, each in its own session: the former waits for each answer. The
// detector knows whether any of its sessions goes on.
//
// The end users reveal an agent that changes the user with each request, since a caller is a
// key and a user. Only prompts that change users are counted for it.
//
// The requests in flight distinguish samples of one prompt from repeats after an answer.
//
// It also caches the details of exchanges.
type Memory struct {
	mu      sync.Mutex
	senders map[string][]*sender // by prompt, newest last
	askers  map[fingerprint.Digest]asker
	flights map[string]*flight // by counter

	sums *sums
}

// sender is a session that sent a prompt.
type sender struct {
	session string
	at      time.Time
	open    int // requests that wait for their answers
}

// asker is the last end user who sent a prompt.
type asker struct {
	caller string
	at     time.Time
}

// NewMemory returns a memory without requests.
func NewMemory() *Memory {
	return &Memory{
		senders: map[string][]*sender{}, askers: map[fingerprint.Digest]asker{}, flights: map[string]*flight{}, sums: newSums(),
	}
}

// Waiting is what Memory keeps of a request until it is answered. The zero value keeps
// nothing.
type Waiting struct {
	sent   []*sender
	rounds []*round
}

// Answered notes that a request is no longer in flight.
func (m *Memory) Answered(w *Waiting) {
	if len(w.sent)+len(w.rounds) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range w.sent {
		s.open--
	}
	for _, r := range w.rounds {
		m.leave(r)
	}
	*w = Waiting{}
}

// rotates reports whether the request may come from an agent that names a new session with
// each request. It remembers the request unless that is a peek.
func (m *maker) rotates(id string, asked []byte, p *policy.Prompt) bool {
	prompt, session := id+hex.EncodeToString(asked), id+m.Identity.GetSession() // each policy has its own fingerprint of a prompt
	window := time.Duration(p.WindowSeconds) * time.Second
	m.Memory.mu.Lock()
	defer m.Memory.mu.Unlock()
	alone := m.Memory.alone(session, prompt, m.Now.Add(-window))
	if !m.Peek {
		sent := m.Memory.send(session, prompt, m.Now)
		sent.open++
		m.out.Waiting.sent = append(m.out.Waiting.sent, sent)
	}
	return alone
}

// alone reports whether no other session that sent a prompt since a time waits for an answer.
func (m *Memory) alone(session, prompt string, since time.Time) bool {
	return !slices.ContainsFunc(m.senders[prompt], func(s *sender) bool {
		return s.session != session && s.at.After(since) && s.open > 0
	})
}

// send notes that a session sends a prompt.
func (m *Memory) send(session, prompt string, now time.Time) *sender {
	bounded.MakeRoom(m.senders, prompt, maxPrompts)
	for _, s := range m.senders[prompt] {
		if s.session == session {
			s.at = now
			return s
		}
	}
	s := &sender{session: session, at: now}
	list := m.senders[prompt]
	m.senders[prompt] = append(list[max(0, len(list)-maxSenders+1):], s)
	return s
}

// changed remembers who sent a prompt, and reports whether another caller sent it before,
// within a window.
func (m *Memory) changed(prompt fingerprint.Digest, caller string, window time.Duration, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.askers[prompt]
	bounded.MakeRoom(m.askers, prompt, maxAskers)
	m.askers[prompt] = asker{caller, now}
	return known && before.caller != caller && now.Sub(before.at) < window
}
