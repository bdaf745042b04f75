package evidence

import (
	"encoding/binary"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

const openingDomain = "unloop/opening/1"

// flight is the requests of one prompt during a time in which at least one was in flight.
type flight struct {
	counter    string // the key in Memory.flights
	open, sent int
	since      time.Time
	newest     *round
}

// round is a number of requests of a flight that count as samples of one prompt.
type round struct {
	flight   *flight
	samples  int
	answered bool // a request of this round was answered
	followed bool // a request of this or an earlier round was answered since the round began
}

// sampleWindows is the maximum duration, in windows, of a set of samples. If a prompt is in
// flight for longer, several workers repeat it: a request after an answer to a request of a
// round then begins the next round. If the prompt was sent more often than all allowed rounds
// of samples take, so does a request after any answer.
const sampleWindows = 2

// includes reports whether the next request belongs to the round.
func (r *round) includes(p *policy.Prompt, now time.Time) bool {
	limit := sampleWindows * time.Duration(p.WindowSeconds) * time.Second
	switch {
	case r.samples >= p.Samples:
		return false
	case now.Sub(r.flight.since) < limit:
		return true
	case r.flight.sent >= p.Samples*p.MaxHits:
		return !r.followed
	}
	return !r.answered
}

// inFlight notes that a request is in flight. Requests of one prompt that are in flight
// together are samples, and count as one round.
func (m *maker) inFlight(c *checkpb.Counter, p *bundle.Policy) {
	m.Memory.mu.Lock()
	defer m.Memory.mu.Unlock()
	counter := p.ID + string(c.GetFingerprint())
	f := m.Memory.flights[counter]
	c.Sample = f != nil && f.newest.includes(p.Prompt, m.Now)
	if !m.Peek {
		m.out.Waiting.rounds = append(m.out.Waiting.rounds, m.Memory.join(counter, c.GetSample(), m.Now))
	}
}

// opening describes how the conversation began. Detectors know the caller's other
// conversations, and whether such conversations go on.
func (m *maker) opening(p *policy.Prompt, named bool) *checkpb.Opening {
	o := &checkpb.Opening{Named: named}
	if p.CountEach || m.Prompt == nil || m.Prompt.Delta {
		return o
	}
	sum := fingerprint.New(openingDomain).String(m.Identity.GetCaller()).Digest(m.Prompt.Transcript.Beginning()).Sum()
	o.Begin, o.Messages, o.First = binary.BigEndian.Uint64(sum.Bytes()), uint32(m.Prompt.Transcript.Messages()), m.begins()
	o.History, o.Before = m.Prompt.Transcript.Exchanges()
	return o
}

// begins reports whether the request has no message of the model yet.
func (m *maker) begins() bool {
	return m.Prompt != nil && !m.Prompt.Delta && m.Prompt.Transcript.Begins()
}

// join adds a request to the newest round of a prompt's flight if it is a sample, else to a
// new round, and returns the round.
func (m *Memory) join(counter string, sample bool, now time.Time) *round {
	f := m.flights[counter]
	if f == nil {
		f = &flight{counter: counter, since: now}
		m.flights[counter] = f
	}
	if !sample {
		f.newest = &round{flight: f}
	}
	f.newest.samples, f.sent, f.open = f.newest.samples+1, f.sent+1, f.open+1
	return f.newest
}

// leave notes that a request of a round is no longer in flight.
func (m *Memory) leave(r *round) {
	f := r.flight
	r.answered, f.newest.followed = true, true
	if f.open--; f.open == 0 {
		delete(m.flights, f.counter)
	}
}
