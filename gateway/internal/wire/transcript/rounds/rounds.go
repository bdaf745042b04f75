// Package rounds finds the tool rounds of a conversation: the calls of each turn of the
// model with their results, and the human messages between them. Agents that act in text
// have rounds too: package textact reads their actions.
//
// Rounds keeps the newest items in a ring, so that its size does not depend on the length
// of the conversation. It computes digests when they are needed. It knows no wire format
// and no policy, and decides nothing about loops.
package rounds

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Rounds has the rounds of a conversation. Make one with New, add each message with
// Message, and read the history then.
type Rounds struct {
	// System are the instructions beside the messages.
	System []message.Part
	// Tools are the names of the tools that the request offers. Unnamed says that it
	// offers more than these.
	Tools   [][]byte
	Unnamed bool
	// Continues is set if messages follow after the history was read. The calls that were read
	// stay with the rounds, because the history is then read again.
	Continues bool

	digester *message.Digester
	wire     history
	chat     chat
}

// New returns empty rounds that keep the limit newest items.
func New(limit int, d *message.Digester) Rounds {
	return Rounds{digester: d, wire: history{limit: limit}}
}

// Message adds a message.
func (t *Rounds) Message(role message.Role, parts []message.Part) {
	t.wire.message(t.digester, role, parts)
	t.chat.message(role, parts)
}

// HasTools reports whether the request offers tools or its history has calls. An
// incomplete history may have calls.
func (t *Rounds) HasTools() bool {
	if len(t.Tools) > 0 || len(t.inText()) > 0 || !t.wire.before.IsZero() {
		return true
	}
	for i := range t.wire.slots {
		if len(t.wire.slots[i].calls) > 0 {
			return true
		}
	}
	return false
}

// InText reports whether the agent acts in text.
func (t *Rounds) InText() bool { return len(t.inText()) > 0 }

// Closed reports whether the conversation ends with a message that follows an answer without
// a call.
func (t *Rounds) Closed() bool {
	if text := t.inText(); len(text) > 0 {
		return text[len(text)-1].closed
	}
	s := t.wire.newest()
	return s != nil && s.closed
}

// Turned reports whether an answer without a call has ended a turn.
func (t *Rounds) Turned() bool {
	return slices.ContainsFunc(t.inText(), func(r textRound) bool { return r.closed }) ||
		slices.ContainsFunc(t.wire.slots, func(s slot) bool { return s.closed })
}

// Since returns a digest of the rounds between the newest one and the previous round with the
// same calls, without the newest shown ones: an edit between two runs of a test. It is zero if
// there are none, or if a human message came after the previous round.
func (t *Rounds) Since(shown int) (sum fingerprint.Digest) {
	n, round := len(t.wire.slots), t.wireRound
	if text := t.inText(); len(text) > 0 {
		n, round = len(text), func(i int) fingerprint.Digest { return text[i].call.Key }
	}
	if n == 0 {
		return sum
	}
	newest := round(n - 1)
	for i := n - 2; i >= 0 && !newest.IsZero(); i-- {
		switch key := round(i); {
		case key == newest:
			return sum
		case key.IsZero():
			return key
		case n-i > shown:
			sum = fingerprint.Chain(sum, key)
		}
	}
	return fingerprint.Digest{}
}

// wireRound returns the key of a round of calls; zero for a human message.
func (t *Rounds) wireRound(i int) fingerprint.Digest {
	s := t.wire.slot(i)
	if len(s.calls) == 0 {
		return fingerprint.Digest{}
	}
	return s.key(t.digester)
}

// Elsewhere adds the call of a stray result to a sum: its key or, if the call is not known, its
// id.
func (t *Rounds) Elsewhere(sum fingerprint.Digest, result *message.Part) fingerprint.Digest {
	if result.Kind != message.Result || len(result.ID) == 0 || !t.wire.isStray(result.ID) {
		return sum
	}
	call := message.CallID(result.ID)
	for i := range slices.Backward(t.wire.kept) {
		if t.wire.kept[i].call.ID == call {
			return fingerprint.Chain(sum, t.wire.kept[i].call.Key)
		}
	}
	return fingerprint.Chain(sum, call)
}
