package rounds

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Bounds on the calls of one round, and on those that are searched for the call of one
// result.
const (
	maxCalls  = 256
	maxLookup = 512
)

// usualSlots is how many slots are allocated together.
const usualSlots = 8

// history is a ring of the newest rounds and human messages.
type history struct {
	limit  int
	slots  []slot
	next   int // index of the oldest, once the ring is full
	before fingerprint.Digest
	// strays are results of calls that the history does not have, oldest first.
	strays []stray
	// kept are the calls of the strays, as far as the server has them.
	kept []keptCall
	// waiting says that the previous message has calls, answered that it has results.
	waiting, answered bool
	// spoken says that the agent has written without a call since the last result or
	// user message.
	spoken bool
	// parts and answers are room for further slots.
	parts   []message.Part
	answers []answer
}

// stray is a result without its call.
type stray struct {
	result  message.Part
	content []message.Part
}

// keptCall is a call in an answer before the history, with its result.
type keptCall struct {
	call message.ToolCall
	stray
}

// slot is a round of calls with their results, or a human message.
type slot struct {
	human   fingerprint.Digest
	summary bool
	midturn bool // a human message directly behind results
	closed  bool // a human message behind an answer without a call
	calls   []message.Part
	answers []answer
	content []message.Part     // of all results
	sum     fingerprint.Digest // the key; zero until it is needed
	lines   lineSet            // of content; nil until they are needed
}

// answer is the result of one call.
type answer struct {
	words    fingerprint.Digest // of the text beside the call
	result   message.Part
	known    bool
	from, to int // of slot.content
	// sums identify the call with the result for a cache; zero until they are needed.
	sums message.CacheKey
	// read holds the call as rules read it, if the conversation continues.
	read []readCall
}

// forget drops what was derived from an answer that has changed.
func (a *answer) forget() { a.sums, a.read = message.CacheKey{}, nil }

// readCall is a call as rules with a number read it.
type readCall struct {
	number uint64
	call   message.ToolCall
}

// message adds the calls, results and human words of a message.
func (h *history) message(d *message.Digester, role message.Role, parts []message.Part) {
	if h.limit == 0 {
		return
	}
	if role == message.Assistant {
		h.round(d, parts)
	}
	for i := range parts {
		if parts[i].Kind == message.Result {
			h.answer(&parts[i], message.Inside(parts[i+1:]))
		}
	}
	if role == message.User {
		h.user(d, parts)
	}
	h.follow(role, parts)
}

// round adds the calls of a message, of very many the newest. Where calls have no ids, the
// words before a call tell it from an equal one, or those behind all calls.
func (h *history) round(d *message.Digester, parts []message.Part) {
	var s *slot
	var words fingerprint.Digest
	called := true // since the words
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind == message.Text && !p.Inside:
			if called {
				words, called = fingerprint.Digest{}, false
			}
			words = fingerprint.Chain(words, fingerprint.Bytes(p.Value))
		case p.Kind == message.Call:
			if s == nil {
				s = h.push(d)
			}
			s.addCall(p, words)
			called = true
		}
	}
	if s != nil && s.answers[0].words.IsZero() {
		s.answers[0].words = words
	}
}

// addCall adds a call and the words before it.
func (s *slot) addCall(p *message.Part, words fingerprint.Digest) {
	if len(s.calls) >= maxCalls { // the older half goes at once
		s.calls, s.answers = slices.Delete(s.calls, 0, maxCalls/2), slices.Delete(s.answers, 0, maxCalls/2)
	}
	s.calls, s.answers = append(s.calls, *p), append(s.answers, answer{words: words})
}

// push returns a slot for a new item.
func (h *history) push(d *message.Digester) *slot {
	if len(h.slots) < h.limit {
		if h.slots == nil {
			h.slots = make([]slot, 0, min(usualSlots, h.limit))
		}
		h.slots = append(h.slots, h.empty())
		return &h.slots[len(h.slots)-1]
	}
	s := &h.slots[h.next]
	h.next = (h.next + 1) % len(h.slots)
	h.before = fingerprint.Chain(h.before, s.key(d))
	*s = slot{calls: s.calls[:0], answers: s.answers[:0], content: s.content[:0]}
	return s
}

// empty returns a slot with room for one call and its result, as most rounds have.
func (h *history) empty() slot {
	if len(h.parts) == 0 {
		h.parts, h.answers = make([]message.Part, 2*usualSlots), make([]answer, usualSlots)
	}
	s := slot{calls: h.parts[:0:1], content: h.parts[1:1:2], answers: h.answers[:0:1]}
	h.parts, h.answers = h.parts[2:], h.answers[1:]
	return s
}

// key returns the item's key in the chain of the history.
func (s *slot) key(d *message.Digester) fingerprint.Digest {
	if len(s.calls) == 0 {
		return fingerprint.HumanKey(s.human)
	}
	if s.sum.IsZero() {
		keys := make([]fingerprint.Digest, len(s.calls))
		for i := range s.calls {
			keys[i] = d.Call(&s.calls[i])
		}
		s.sum = fingerprint.RoundKey(keys)
	}
	return s.sum
}

// slot returns the i-th item, the oldest first.
func (h *history) slot(i int) *slot { return &h.slots[(h.next+i)%len(h.slots)] }

// calls returns the number of calls in all items.
func (h *history) calls() (n int) {
	for i := range h.slots {
		n += len(h.slots[i].calls)
	}
	return n
}

// isStray reports whether the history does not have the call of a result.
func (h *history) isStray(id []byte) bool {
	return slices.ContainsFunc(h.strays, func(s stray) bool { return bytes.Equal(s.result.ID, id) })
}

// answer adds a result to its call, in the newest round that has it. A call keeps its
// first result, but a final one replaces one that is pending.
func (h *history) answer(result *message.Part, content []message.Part) {
	looks := 0
	for i := range slices.Backward(h.slots) {
		s := h.slot(i)
		for c := range s.calls {
			if looks++; looks > maxLookup {
				return // no stray: its call may be further back
			}
			a := &s.answers[c]
			if !fits(&s.calls[c], a, result) {
				continue
			}
			if !a.known || a.result.Pending && !result.Pending {
				from := len(s.content)
				s.content, s.lines = append(s.content, content...), nil
				*a = answer{words: a.words, result: *result, known: true, from: from, to: len(s.content)}
			}
			return
		}
	}
	if len(result.ID) > 0 && !result.Pending && len(h.strays) < maxCalls {
		h.strays = append(h.strays, stray{*result, slices.Clone(content)})
	}
}

// precede returns the round of the calls before the history that have strays, and the
// others. A call keeps its first result.
func (h *history) precede(calls []message.ToolCall) (kept []keptCall, open []message.ToolCall) {
	results := make(map[fingerprint.Digest]int, len(h.strays))
	for i := range slices.Backward(h.strays) {
		results[message.CallID(h.strays[i].result.ID)] = i
	}
	for _, c := range calls {
		i, answered := results[c.ID]
		switch {
		case !answered:
			open = append(open, c)
		case len(kept) < maxCalls:
			kept = append(kept, keptCall{c, h.strays[i]})
		}
	}
	return kept, open
}

// fits reports whether a result is that of a call. Without ids it is that of the first
// call of the tool that has none yet.
func fits(call *message.Part, a *answer, result *message.Part) bool {
	if len(result.ID) > 0 && call.Known != nil {
		return call.Known.ID == message.CallID(result.ID)
	}
	if len(result.ID) > 0 {
		return bytes.Equal(call.ID, result.ID)
	}
	return !a.known && bytes.Equal(call.Name, result.Name)
}
