// Package transcript keeps of a conversation what detectors ask about: its newest
// messages, its newest tool rounds, how it began and whose it is.
//
// The wire formats feed it message by message while they walk over a body. It
// keeps slices of the body, in buffers whose size depends on what was asked for
// and not on the body, and hashes them only when somebody asks. The same
// conversation gives the same digests in every format. It knows neither wire
// formats nor policies.
package transcript

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/provider/transcript/textact"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Role is who speaks.
type Role uint8

// The roles. Tool is a message that carries tool results alone; formats that give
// those the user's role are read as if they had one of their own.
const (
	User Role = iota
	Assistant
	System
	Tool
)

var roleNames = [...]string{User: "user", Assistant: "assistant", System: "system", Tool: "tool"}

// Kind is what a part of a message is.
type Kind uint8

// The kinds. A model's thinking is none of them: it is not recorded.
const (
	// Text has a JSON string as its value.
	Text Kind = iota
	// Call has the arguments as its value: JSON, or a JSON string that holds them.
	Call
	// Result has no value; the parts with Inside set that follow it are its
	// content.
	Result
	// Other is an image, a document and the like: any JSON.
	Other
	// Field is a member of the message itself that tells it from others.
	Field
)

// Part is one part of a message. Its slices belong to the body.
type Part struct {
	Kind Kind
	// Inside says that the part is content of the result before it.
	Inside bool
	// Failed says that the format marks a result as an error.
	Failed bool
	// Fine says that the format marks a result as no error.
	Fine bool
	// Pending says that the format marks a result as not final.
	Pending bool
	// Provided says that a call is of a tool that the provider brings, and that a
	// request need not list by name.
	Provided bool
	// ID matches results with calls. Without one they match by Name, in order.
	ID   []byte
	Name []byte
	// Mark is what else tells a call from an equal one: a signature.
	Mark  []byte
	Value []byte
	// Known is a call that the body only refers to; nil for one that stands in it.
	Known *ToolCall
}

// Options say how much is kept.
type Options struct {
	// Tail is the number of newest messages that are compared.
	Tail int
	// Items is the number of newest rounds and human messages that are kept; of
	// older ones only a chain of their keys is.
	Items int
	// Exchanges is the number of exchanges before the newest one whose digests are
	// kept.
	Exchanges int
	// Cache spares the reading of what was read before; nil for none.
	Cache *Cache
}

// Message is one message by its digests.
type Message struct {
	// Strict covers role, text, other content, tool calls and tool results,
	// without the ids of calls and messages.
	Strict fingerprint.Digest
	// Text covers the text alone, that of results included.
	Text fingerprint.Digest
}

// kept is a message of which the parts are kept.
type kept struct {
	role  Role
	parts []Part
	// digest is zero until somebody asks.
	digest Message
}

// Transcript records a conversation. Make one with New; feed it with Add and End,
// and then Finish it. It is valid as long as the body is not changed.
type Transcript struct {
	discard  bool // nothing is kept
	opts     Options
	messages int
	open     []Part
	spare    []Part

	tail []kept // a ring
	next int    // index into tail of the oldest kept message

	system   []Part // of the prompt that stands beside the messages
	preamble bool   // only instructions came so far
	rules    fingerprint.Digest
	first    fingerprint.Digest // the first human message
	begun    []Part             // its parts
	begunTo  int                // where in its text an agent's scratchpad begins; 0 for none
	opened   bool
	summed   bool // that is a summary
	spoken   bool // there is a message of the model's
	tools    [][]byte
	unnamed  bool // some tools are not named

	history history
	acts    acts
	said    []Part
	answers []Part
	earlier []uint64 // digests of the exchanges before, oldest first

	digester digester
}

// New returns an empty transcript.
func New(o Options) *Transcript {
	return &Transcript{opts: o, preamble: true, history: history{limit: o.Items}, digester: digester{cache: o.Cache}}
}

// Add adds a part to the open message and returns its index in it.
func (t *Transcript) Add(p Part) int {
	t.open = append(t.open, p)
	return len(t.open) - 1
}

// At is a part of the open message, for formats that learn late what it is. The
// pointer is valid until the next Add.
func (t *Transcript) At(i int) *Part { return &t.open[i] }

// Cut drops the parts of the open message from index i on.
func (t *Transcript) Cut(i int) { t.open = t.open[:i] }

// Wrap makes the parts of the open message from index i on the content of a result.
func (t *Transcript) Wrap(i int, result Part) {
	result.Kind = Result
	t.Insert(i, result)
	for j := i + 1; j < len(t.open); j++ {
		t.open[j].Inside = true
	}
}

// Insert puts a part before index i of the open message.
func (t *Transcript) Insert(i int, p Part) { t.open = slices.Insert(t.open, i, p) }

// Remove drops the part at index i of the open message.
func (t *Transcript) Remove(i int) { t.open = slices.Delete(t.open, i, i+1) }

// EndBefore ends the message whose parts are those before index i; the others
// begin the next one.
func (t *Transcript) EndBefore(i int, role Role) {
	t.spare = append(t.spare[:0], t.open[i:]...)
	t.open = t.open[:i]
	t.End(role)
	t.open = append(t.open, t.spare...)
}

// Mark is the number of parts of the open message, and the index of the next.
func (t *Transcript) Mark() int { return len(t.open) }

// HasTools says whether the request offers tools or its history has calls.
// A history of which a part was left out may have.
func (t *Transcript) HasTools() bool {
	return len(t.tools) > 0 || len(t.textRounds()) > 0 || !t.history.before.IsZero() ||
		slices.ContainsFunc(t.history.slots, func(s slot) bool { return len(s.calls) > 0 })
}

// Offer adds the name of a tool that the request offers. It ignores an empty name.
func (t *Transcript) Offer(name []byte) {
	if len(name) > 0 {
		t.tools = append(t.tools, name)
	}
}

// OfferUnnamed says that the request offers tools that it does not name: a set of the
// provider's own, or tools that are found or added on the way.
func (t *Transcript) OfferUnnamed() { t.unnamed = true }

// Discard returns a transcript that drops each message at its end.
func Discard() *Transcript { return &Transcript{discard: true} }

// EndSystem makes the open message the system prompt, for formats that have it
// beside the messages, wherever in the body.
func (t *Transcript) EndSystem() {
	if !t.discard {
		t.system = append(t.system, t.open...)
	}
	t.open = t.open[:0]
}

// End ends the open message.
func (t *Transcript) End(role Role) {
	t.messages++
	if t.discard {
		t.open = t.open[:0]
		return
	}
	role = effective(role, t.open)
	switch role {
	case System:
		if t.preamble {
			t.rules = fingerprint.Chain(t.rules, t.digester.message(System, t.open).Strict)
		}
	case User:
		t.hear()
	case Assistant, Tool:
		t.preamble, t.spoken = false, t.spoken || role == Assistant
	}
	t.history.message(&t.digester, role, t.open)
	t.acts.message(role, t.open)
	t.exchange(role)
	t.keep(role)
}

// effective is Tool for a user message of tool results.
func effective(role Role, parts []Part) Role {
	if role != User {
		return role
	}
	results := false
	for i := range parts {
		switch {
		case parts[i].Kind == Result:
			results = true
		case !parts[i].Inside && parts[i].Kind != Field:
			return User
		}
	}
	if results {
		return Tool
	}
	return User
}

// hear takes the first human message into what the conversation began with.
func (t *Transcript) hear() {
	t.preamble = false
	if t.opened {
		return
	}
	d, human := t.digester.human(t.open)
	if !human {
		return
	}
	t.summed = recognize.IsSummary(t.digester.text)
	if steps, begin := textact.Scratchpad(t.digester.text); len(steps) > 0 {
		d, t.begunTo = t.digester.canon.Text(t.digester.text[:begin]), begin // what is behind it grows
	}
	t.first, t.begun, t.opened = d, slices.Clone(t.open), true
}

// usualParts is room for the parts of most messages.
const usualParts = 4

// keep makes the open message the newest of those that are kept, and takes the
// buffer of the one that leaves them for the next message.
func (t *Transcript) keep(role Role) {
	limit := 0
	if t.opts.Tail > 0 {
		limit = max(t.opts.Tail, maxRecent)
	}
	switch {
	case limit == 0:
		t.open = t.open[:0]
	case len(t.tail) < limit:
		t.tail = append(t.tail, kept{role: role, parts: t.open})
		t.open = make([]Part, 0, usualParts)
	default:
		slot := &t.tail[t.next]
		t.open, *slot = slot.parts[:0], kept{role: role, parts: t.open}
		t.next = (t.next + 1) % len(t.tail)
	}
}

// Messages is the number of messages, without a system prompt beside them.
func (t *Transcript) Messages() int { return t.messages }

// Tail returns the newest messages, oldest first. A system prompt beside the
// messages comes before the first of them.
func (t *Transcript) Tail() []Message {
	if t.opts.Tail == 0 {
		return nil
	}
	out := make([]Message, 0, len(t.tail)+1)
	if len(t.system) > 0 && t.messages < t.opts.Tail {
		out = append(out, t.digester.message(System, t.system))
	}
	for i := max(0, len(t.tail)-t.opts.Tail); i < len(t.tail); i++ {
		out = append(out, t.digest(i))
	}
	return out
}

// instructions is the digest of all that stands before the conversation.
func (t *Transcript) instructions() fingerprint.Digest {
	if len(t.system) == 0 {
		return t.rules
	}
	before := fingerprint.Chain(fingerprint.Digest{}, t.digester.message(System, t.system).Strict)
	if t.rules.IsZero() {
		return before
	}
	return fingerprint.Chain(before, t.rules)
}

// Opening identifies the conversation by its instructions and its first human
// message. It is zero where there is neither.
func (t *Transcript) Opening() fingerprint.Digest {
	rules := t.instructions()
	if rules.IsZero() && t.first.IsZero() {
		return fingerprint.Digest{}
	}
	return fingerprint.Chain(rules, t.first)
}

// Compacted says that the conversation begins with a summary of the one before.
func (t *Transcript) Compacted() bool { return t.summed }

// Agent identifies who works in the conversation by its instructions and the names
// of its tools, in any order: the agents that share a session differ in them.
func (t *Transcript) Agent() fingerprint.Digest {
	var names fingerprint.Digest
	for _, name := range t.tools {
		mix(&names, fingerprint.String(name))
	}
	return fingerprint.Chain(t.instructions(), names)
}

// mix adds to a digest that is the same whatever the order.
func mix(sum *fingerprint.Digest, d fingerprint.Digest) {
	for i := range sum {
		sum[i] ^= d[i]
	}
}
