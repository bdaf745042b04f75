// Package workload distinguishes a caller's usual workload from loops: equal first requests
// among many others, and equal prompts of conversations or sessions that go on.
//
// One detector decides all checks of a caller, whichever gateway sends them, so its memory
// has the whole of the caller's traffic. The memory is given the time, and counts nothing itself.
package workload

import (
	"encoding/binary"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
)

// The parts of a prompt's fingerprint: what was asked, and in which session.
const (
	askedEnd        = 16
	sessionEnd      = 24
	fingerprintSize = 32
)

// Memory remembers what callers sent lately. It may be used by many goroutines at once.
// Make it with New.
type Memory struct {
	mu      sync.Mutex
	turns   map[turnsKey]turns
	newest  map[string]string    // prompt by session
	senders map[string][]*sender // by prompt
}

// New returns a memory without requests.
func New() *Memory {
	return &Memory{turns: map[turnsKey]turns{}, newest: map[string]string{}, senders: map[string][]*sender{}}
}

// Judgement is what the memory says of a counter.
type Judgement struct {
	// Usual says that the prompt is a usual workload of its caller.
	Usual bool
	// Since is when the caller became known; zero if that does not matter.
	Since time.Time
	// Apart says that the session goes on: it does not add to the count of several sessions.
	Apart bool
}

// Moderate records a check's counter, and returns it with the actions that apply: a usual
// workload brings warnings at most. It does not change the check.
func (m *Memory) Moderate(check *checkpb.Check, c *checkpb.Counter, now time.Time) (*checkpb.Counter, Judgement) {
	o := c.GetOpening()
	if o == nil || len(c.GetFingerprint()) != fingerprintSize || len(c.GetSteps()) == 0 {
		return c, Judgement{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	goesOn := o.GetNamed() && m.sessionGoesOn(check, c, now)
	judgement := m.judge(check, c, now)
	judgement.Apart = goesOn
	if !judgement.Usual {
		return c, judgement
	}
	c = proto.CloneOf(c)
	c.CooldownSeconds = 0
	for _, s := range c.GetSteps() {
		s.Action = min(s.GetAction(), checkpb.Action_ACTION_WARN)
	}
	return c, judgement
}

// judge records a request, and says whether its prompt is a usual workload of its caller.
func (m *Memory) judge(check *checkpb.Check, c *checkpb.Counter, now time.Time) Judgement {
	o := c.GetOpening()
	if o.GetBegin() == 0 {
		return Judgement{}
	}
	own := turn{
		prompt: binary.BigEndian.Uint64(c.GetFingerprint()), begin: o.GetBegin(), length: o.GetMessages(),
		history: o.GetHistory(), before: o.GetBefore(), at: now, sample: c.GetSample(), hit: check.GetHit(),
	}
	first := turnsKey{c.GetPolicy(), check.GetIdentity().GetCaller(), [sessionEnd - askedEnd]byte(c.GetFingerprint()[askedEnd:sessionEnd]), false}
	later := first
	later.later = true
	window, row := time.Duration(c.GetWindowSeconds())*time.Second, int(c.GetSteps()[0].GetAt())
	if o.GetFirst() {
		known := m.add(first, &own, window, !check.GetPeek())
		return Judgement{Usual: isUsual(known.list, row, check.GetShared()) || goOn(known.list, row), Since: known.since}
	}
	if !check.GetPeek() {
		follow(m.turns[first].list, &own)
		follow(m.turns[later].list, &own)
	}
	known := m.add(later, &own, window, !check.GetPeek())
	return Judgement{Usual: goOn(known.list, row) || isApart(known.list, row), Since: known.since}
}
