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

// flight is the requests of one prompt from when it was in flight without a pause.
type flight struct {
	counter    string // the key in Memory.flights
	open, sent int
	since      time.Time
	newest     *round
}

// round is some requests of a flight, each in flight with another one at least.
type round struct {
	flight   *flight
	samples  int
	answered bool // one of them was
	followed bool // one of this round or of an earlier one was, since the round began
}

// lastsWindows is how many windows a set of samples may take. A prompt that is in flight for
// longer without a pause is sent again and again by several workers: a request after an
// answer to one of a round then begins the next round. If it was sent more often than in all
// rounds of samples that may come one after the other, so does a request after any answer.
const lastsWindows = 2

// goesOn reports whether a request belongs to the round.
func (r *round) goesOn(p *policy.Prompt, now time.Time) bool {
	limit := lastsWindows * time.Duration(p.WindowSeconds) * time.Second
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

// inFlight notes a request in flight: those of one prompt that are in flight together are
// samples, and one round.
func (m *maker) inFlight(c *checkpb.Counter, p *bundle.Policy) {
	m.Memory.mu.Lock()
	defer m.Memory.mu.Unlock()
	counter := p.ID + string(c.GetFingerprint())
	f := m.Memory.flights[counter]
	c.Sample = f != nil && f.newest.goesOn(p.Prompt, m.Now)
	if !m.Peek {
		m.out.Waiting.rounds = append(m.out.Waiting.rounds, m.Memory.depart(counter, c.GetSample(), m.Now))
	}
}

// opening says how the conversation began. Detectors know what else the caller sends, and
// whether such conversations go on.
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

// begins reports whether the request shows nothing of the model's yet.
func (m *maker) begins() bool {
	return m.Prompt != nil && !m.Prompt.Delta && m.Prompt.Transcript.Begins()
}

// depart adds a request to the newest round of a prompt's flight if it is a sample, else to
// the next round, which it returns.
func (m *Memory) depart(counter string, sample bool, now time.Time) *round {
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

// leave notes that a request of a round is not in flight any more.
func (m *Memory) leave(r *round) {
	f := r.flight
	r.answered, f.newest.followed = true, true
	if f.open--; f.open == 0 {
		delete(m.flights, f.counter)
	}
}
