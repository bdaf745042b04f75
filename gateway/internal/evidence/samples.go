package evidence

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/unloop/unloop/gateway/internal/bounded"
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxOpeners bounds the callers with their newest first requests, and maxOpenings the
	// first requests of each, newest last.
	maxOpeners  = 4096
	maxOpenings = 128
)

// round is the requests of one prompt that are in flight together.
type round struct {
	counter       string // the key in Memory.rounds
	samples, open int
}

// opening is a request without history. prompt is a part of its fingerprint.
type opening struct {
	prompt uint64
	at     time.Time
	sample bool
}

// moderate leaves out of a prompt's count what its source has in it, and is no loop:
// requests that are in flight together count as one, and equal first requests of a caller
// that sends more others are its workload, which is warned of at the most.
func (m *maker) moderate(c *checkpb.Counter, p *bundle.Policy, session string) {
	m.Memory.mu.Lock()
	defer m.Memory.mu.Unlock()
	r, joined := m.Memory.join(p.ID+string(c.GetFingerprint()), p.Prompt.Samples)
	c.Sample = joined
	if !m.Peek {
		m.out.rounds = append(m.out.rounds, m.Memory.enter(r))
	}
	if !m.begins() {
		return
	}
	own := opening{binary.BigEndian.Uint64(c.GetFingerprint()), m.Now, joined}
	list := m.Memory.openingsOf(p.ID+m.Identity.GetCaller()+session, own, time.Duration(p.Prompt.WindowSeconds)*time.Second, !m.Peek)
	if isWorkload(list, int(c.GetSteps()[0].GetAt())) {
		c.CooldownSeconds = 0
		for _, s := range c.GetSteps() {
			s.Action = min(s.GetAction(), checkpb.Action_ACTION_WARN)
		}
	}
}

// begins reports whether the request shows nothing of the model's yet.
func (m *maker) begins() bool {
	return m.Prompt != nil && !m.Prompt.Delta && m.Prompt.Transcript.Begins()
}

// join returns the round of a counter that a request belongs to: the one that is in
// flight, unless it has its samples, or else a new one.
func (m *Memory) join(counter string, samples int) (r *round, joined bool) {
	if r = m.rounds[counter]; r != nil && r.samples < samples {
		return r, true
	}
	return &round{counter: counter}, false
}

// enter notes that a request of a round is in flight.
func (m *Memory) enter(r *round) *round {
	r.samples++
	r.open++
	m.rounds[r.counter] = r
	return r
}

// leave notes that it is not any more.
func (m *Memory) leave(r *round) {
	if r.open--; r.open == 0 && m.rounds[r.counter] == r {
		delete(m.rounds, r.counter)
	}
}

// openingsOf returns the first requests that an opener sent within a window, the newest
// last, with one more, which it keeps if told to.
func (m *Memory) openingsOf(opener string, own opening, window time.Duration, keep bool) []opening {
	list := m.openings[opener]
	if !keep {
		list = slices.Clone(list)
	}
	list = slices.DeleteFunc(list, func(o opening) bool { return own.at.Sub(o.at) >= window })
	list = append(list[max(0, len(list)-maxOpenings+1):], own)
	if keep {
		bounded.MakeRoom(m.openings, opener, maxOpeners)
		m.openings[opener] = list
	}
	return list
}

// isWorkload reports whether the prompt of the newest of some first requests is that of
// less than half of them, and does not come in a row of so many rounds: the caller sends
// something else in between.
func isWorkload(list []opening, row int) bool {
	prompt := list[len(list)-1].prompt
	equal, rounds, others := 0, 0, false
	for _, o := range slices.Backward(list) {
		if o.prompt != prompt {
			others = true
			continue
		}
		equal++
		if !others && !o.sample {
			rounds++
		}
	}
	return 2*equal < len(list) && rounds < row
}
