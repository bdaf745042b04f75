package evidence

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/share/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

const (
	// maxOpeners bounds the callers with their newest first requests, and maxOpenings the
	// first requests of each, newest last.
	maxOpeners  = 4096
	maxOpenings = 128
)

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

// opening is a request without history. prompt is a part of its fingerprint.
type opening struct {
	prompt uint64
	begin  fingerprint.Digest // Transcript.Beginning
	length int                // Transcript.Messages
	at     time.Time
	sample bool
	wentOn bool // a later request has an answer to it
}

// turnMessages is the number of messages that a conversation's second request has more than
// its first, at most: an answer, which may be in parts, and what follows it.
const turnMessages = 4

// moderate leaves out of a prompt's count what its source has in it, and is not a loop:
// requests that are in flight together count as one, and equal first requests of a caller
// that sends more others, or whose conversations go on, are its workload, which is warned of
// at most.
func (m *maker) moderate(c *checkpb.Counter, p *bundle.Policy, session string) {
	m.Memory.mu.Lock()
	defer m.Memory.mu.Unlock()
	counter := p.ID + string(c.GetFingerprint())
	f := m.Memory.flights[counter]
	c.Sample = f != nil && f.newest.goesOn(p.Prompt, m.Now)
	if !m.Peek {
		m.out.Waiting.rounds = append(m.out.Waiting.rounds, m.Memory.depart(counter, c.GetSample(), m.Now))
	}
	opener := p.ID + m.Identity.GetCaller() + session
	if !m.begins() {
		m.goOn(opener)
		return
	}
	own := opening{prompt: binary.BigEndian.Uint64(c.GetFingerprint()), begin: m.Prompt.Transcript.Beginning(), length: m.Prompt.Transcript.Messages(), at: m.Now, sample: c.GetSample()}
	list := m.Memory.openingsOf(opener, own, time.Duration(p.Prompt.WindowSeconds)*time.Second, !m.Peek)
	if isWorkload(list, int(c.GetSteps()[0].GetAt())) {
		c.CooldownSeconds = 0
		for _, s := range c.GetSteps() {
			s.Action = min(s.GetAction(), checkpb.Action_ACTION_WARN)
		}
	}
}

// goOn marks the newest equal first request that is not marked yet: its conversation goes on.
func (m *maker) goOn(opener string) {
	list := m.Memory.openings[opener]
	if m.Peek || m.Prompt == nil || m.Prompt.Delta || len(list) == 0 {
		return
	}
	begin, length := m.Prompt.Transcript.Beginning(), m.Prompt.Transcript.Messages()
	for i := range slices.Backward(list) {
		if o := &list[i]; !o.wentOn && o.begin == begin && length <= o.length+turnMessages {
			o.wentOn = true
			return
		}
	}
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
// something else in between. Of few requests, as a gateway that has just begun knows, that
// cannot be said. A prompt is a workload, too, if most of its conversations went on, and
// fewer than the row did not: what follows is counted by itself.
func isWorkload(list []opening, row int) bool {
	prompt := list[len(list)-1].prompt
	equal, rounds, wentOn, ended, others := 0, 0, 0, 0, false
	for _, o := range slices.Backward(list) {
		if o.prompt != prompt {
			others = true
			continue
		}
		equal++
		wentOn, ended = wentOn+count(o.wentOn), ended+count(!o.wentOn && !o.sample)
		if !others && !o.sample {
			rounds++
		}
	}
	return 2*equal < len(list) && rounds < row && len(list) > 2*row || wentOn > 0 && wentOn >= ended && ended < row
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
