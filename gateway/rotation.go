package gateway

import (
	"encoding/hex"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/policy"
)

const (
	// maxPaths bounds the sessions whose newest prompt is remembered, and maxShared the
	// prompts whose senders are.
	maxPaths  = 16384
	maxShared = 4096
	// maxSenders bounds the senders of one prompt; the oldest is forgotten.
	maxSenders = 32
)

// rotation tells an agent that gives each request a session's name of its own from
// agents that work on the same task in sessions of theirs. The former waits for each
// answer, and no session of its goes on. It remembers who sent which prompt lately,
// as far as this gateway saw it. The nil rotation takes all for the former.
type rotation struct {
	mu      sync.Mutex
	newest  map[string]string    // by session, its prompt
	senders map[string][]*sender // by prompt
}

// sender is a session that sent a prompt.
type sender struct {
	session string
	at      time.Time
	open    int // requests whose answers have not ended
	wentOn  bool
}

func newRotation() *rotation {
	return &rotation{newest: map[string]string{}, senders: map[string][]*sender{}}
}

// rotates says whether the request may be one of an agent that gives each a
// session's name of its own, and notes it.
func (x *exchange) rotates(id string, asked []byte, p *policy.Prompt, now time.Time) bool {
	if x.rotation == nil {
		return true
	}
	prompt, session := id+hex.EncodeToString(asked), id+x.Identity.GetSession() // policies see prompts differently
	window := time.Duration(p.WindowSeconds) * time.Second
	x.rotation.mu.Lock()
	defer x.rotation.mu.Unlock()
	alone := x.rotation.alone(session, prompt, now.Add(-window))
	if !x.Peek {
		sent := x.rotation.send(session, prompt, now)
		sent.open++
		x.sent = append(x.sent, sent)
	}
	return alone
}

// answered notes that the exchange waits for no answer any more.
func (x *exchange) answered() {
	if x.rotation == nil {
		return
	}
	x.rotation.mu.Lock()
	defer x.rotation.mu.Unlock()
	for _, s := range x.sent {
		s.open--
	}
	x.sent = nil
}

// alone says whether nothing shows that the senders of a prompt since a time are
// agents of their own: the session has sent no other prompt before, and of the other
// sessions none waits for its answer or went on with another prompt.
func (r *rotation) alone(session, prompt string, since time.Time) bool {
	if before := r.newest[session]; before != "" && before != prompt {
		return false
	}
	for _, s := range r.senders[prompt] {
		if s.session == session && s.wentOn || s.session != session && s.at.After(since) && (s.open > 0 || s.wentOn) {
			return false
		}
	}
	return true
}

// send notes that a session sends a prompt, and so goes on from the one before.
func (r *rotation) send(session, prompt string, now time.Time) *sender {
	if before := r.newest[session]; before != prompt {
		for _, s := range r.senders[before] {
			s.wentOn = s.wentOn || s.session == session
		}
	}
	makeRoom(r.newest, session, maxPaths)
	makeRoom(r.senders, prompt, maxShared)
	r.newest[session] = prompt
	for _, s := range r.senders[prompt] {
		if s.session == session {
			s.at = now
			return s
		}
	}
	s := &sender{session: session, at: now}
	list := r.senders[prompt]
	r.senders[prompt] = append(list[max(0, len(list)-maxSenders+1):], s)
	return s
}

// makeRoom forgets any entry of a full map, unless the key has one.
func makeRoom[V any](m map[string]V, key string, limit int) {
	if _, known := m[key]; known || len(m) < limit {
		return
	}
	for old := range m {
		delete(m, old)
		return
	}
}
