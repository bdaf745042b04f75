// Package transcript extracts the evidence from a conversation: its newest messages, its tool
// rounds (package rounds), its newest exchange, its beginning and its agent.
//
// A wire format adds the messages part by part while it walks over a body. The transcript
// keeps slices of the body and computes digests on demand. The size of its buffers depends on
// the Options and not on the body. The same conversation has the same digests in every
// format. The package knows no wire format and no policy.
package transcript

import (
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds/textact"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Options say how much is kept.
type Options struct {
	// Tail is the number of newest messages in Tail.
	Tail int
	// Items is the number of newest rounds and human messages in History.
	Items int
	// Exchanges is the number of exchanges before the newest one that Digests returns as
	// earlier ones.
	Exchanges int
	// Cache holds what was read from long texts before; nil for none.
	Cache *message.Cache
	// Stop reports whether the conversation is no longer needed; its rest is then not read.
	// nil means never.
	Stop func() bool
}

// kept is a message whose parts are kept.
type kept struct {
	role  message.Role
	parts []message.Part
	// digests are zero until they are needed.
	digests message.Digests
}

// Transcript is a conversation. Make one with New, add each message with Add and End,
// and read it then. It is valid as long as the body is unchanged.
type Transcript struct {
	opts     Options
	rounds   rounds.Rounds
	messages int
	open     []message.Part
	spare    []message.Part
	room     []message.Part // for the buffers of further messages

	tail []kept // a ring
	next int    // index into tail of the oldest kept message

	preamble bool               // there were only instructions
	discard  bool               // nothing is kept
	rules    fingerprint.Digest // of the instructions among the messages
	first    fingerprint.Digest // of the first human message
	begun    []message.Part     // its parts
	begunTo  int                // where in its text an agent's scratchpad begins; 0 for none
	opened   bool
	summed   bool // it is a summary
	spoken   bool // there is a message of the model's

	exchange            // the newest
	digests  []uint64   // of the exchanges before, oldest first
	past     uint64     // the name of those of the agent
	earlier  []exchange // the newest of these exchanges, a ring
	oldest   int        // index into earlier of the oldest

	digester message.Digester

	// instructed and agent are digests of the whole conversation; zero until they are needed.
	instructed, agent fingerprint.Digest
}

// New returns an empty transcript.
func New(o Options) *Transcript {
	t := &Transcript{opts: o, preamble: true, digester: message.Digester{Cache: o.Cache, Stop: o.Stop}}
	t.rounds = rounds.New(o.Items, &t.digester)
	return t
}

// Continue prepares the transcript for further messages, after which its evidence has to be
// read again. The bodies of its messages must stay unchanged.
func (t *Transcript) Continue(stop func() bool) *Transcript {
	t.open, t.digester.Stop, t.rounds.Continues = t.open[:0], stop, true
	return t
}

// Discard returns a transcript that drops each message at its end.
func Discard() *Transcript { return &Transcript{discard: true} }

// Add adds a part to the open message and returns its index.
func (t *Transcript) Add(p message.Part) int {
	t.open = append(t.open, p)
	return len(t.open) - 1
}

// At returns a part of the open message, so that a format can complete it. The pointer is
// valid until the next Add.
func (t *Transcript) At(i int) *message.Part { return &t.open[i] }

// Cut drops the parts of the open message from index i on.
func (t *Transcript) Cut(i int) { t.open = t.open[:i] }

// Wrap makes the parts of the open message from index i on the content of a result.
func (t *Transcript) Wrap(i int, result message.Part) {
	result.Kind = message.Result
	t.Insert(i, result)
	for j := i + 1; j < len(t.open); j++ {
		t.open[j].Inside = true
	}
}

// Insert inserts a part before index i of the open message.
func (t *Transcript) Insert(i int, p message.Part) { t.open = slices.Insert(t.open, i, p) }

// Remove drops parts of the open message.
func (t *Transcript) Remove(drop func(message.Part) bool) { t.open = slices.DeleteFunc(t.open, drop) }

// EndBefore ends the message with the parts before index i. The others begin the next
// message.
func (t *Transcript) EndBefore(i int, role message.Role) {
	t.spare = append(t.spare[:0], t.open[i:]...)
	t.open = t.open[:i]
	t.End(role)
	t.open = append(t.open, t.spare...)
}

// Len returns the number of parts of the open message, which is the index of the next one.
func (t *Transcript) Len() int { return len(t.open) }

// Offer adds the name of a tool that the request offers. It ignores an empty name.
func (t *Transcript) Offer(name []byte) {
	if len(name) > 0 {
		t.rounds.Tools = append(t.rounds.Tools, name)
	}
}

// OfferUnnamed says that the request offers tools without their names: a set of the
// provider's own, or tools that are found or added later.
func (t *Transcript) OfferUnnamed() { t.rounds.Unnamed = true }

// EndSystem makes the open message the instructions beside the messages, in formats that
// have them anywhere in the body.
func (t *Transcript) EndSystem() {
	if !t.discard {
		t.rounds.System = append(t.rounds.System, t.open...)
	}
	t.open = t.open[:0]
}

// End ends the open message.
func (t *Transcript) End(role message.Role) {
	t.messages++
	if t.discard = t.discard || t.digester.Stopped(); t.discard {
		t.open = t.open[:0]
		return
	}
	role = message.Effective(role, t.open)
	switch role {
	case message.System:
		if t.preamble {
			t.rules = fingerprint.Chain(t.rules, t.digester.Message(message.System, t.open).Strict)
			t.instructed, t.agent = fingerprint.Digest{}, fingerprint.Digest{}
		}
	case message.User:
		t.hear()
	case message.Assistant, message.Tool:
		t.preamble, t.spoken = false, t.spoken || role == message.Assistant
	}
	t.rounds.Message(role, t.open)
	t.extend(role)
	t.keep(role)
}

// hear records the first human message.
func (t *Transcript) hear() {
	t.preamble = false
	if t.opened {
		return
	}
	if message.Has(t.open, message.Result) {
		return // it is the agent's
	}
	f := t.digester.Cache.Read(message.OpeningWay, t.open, t.readOpening)
	if !f.Human {
		return
	}
	t.first, t.summed, t.begunTo = f.Digest, f.Summary, f.Begin
	t.begun, t.opened = slices.Clone(t.open), true
}

// readOpening reads the first words of a human.
func (t *Transcript) readOpening() (f message.Reading) {
	text, d, human := t.digester.Human(t.open)
	f.Digest, f.Human, f.Summary = d, human, recognize.IsSummary(text)
	if steps, begin := textact.Scratchpad(text); len(steps) > 0 {
		f.Digest, f.Begin = t.digester.Hasher.Text(text[:begin]), begin // the text behind it grows
	}
	return f
}

// usualParts is the capacity of the buffer for a message, and usualMessages the number of
// buffers that are allocated together.
const (
	usualParts    = 3
	usualMessages = 8
)

// buffer returns an empty buffer for a message.
func (t *Transcript) buffer() []message.Part {
	if len(t.room) == 0 {
		t.room = make([]message.Part, usualParts*usualMessages)
	}
	b := t.room[:0:usualParts]
	t.room = t.room[usualParts:]
	return b
}

// keep makes the open message the newest of the kept ones. It reuses the buffer of the
// message that is dropped.
func (t *Transcript) keep(role message.Role) {
	limit := 0
	if t.opts.Tail > 0 {
		limit = max(t.opts.Tail, maxRecent)
	}
	switch {
	case limit == 0:
		t.open = t.open[:0]
	case len(t.tail) < limit:
		if t.tail == nil {
			t.tail = make([]kept, 0, usualMessages)
		}
		t.tail = append(t.tail, kept{role: role, parts: t.open})
		t.open = t.buffer()
	default:
		slot := &t.tail[t.next]
		t.open, *slot = slot.parts[:0], kept{role: role, parts: t.open}
		t.next = (t.next + 1) % len(t.tail)
	}
}

// Messages returns the number of messages, without instructions beside them.
func (t *Transcript) Messages() int { return t.messages }

// Tail returns the digests of the newest messages, oldest first. Instructions beside the
// messages come before the first message.
func (t *Transcript) Tail() []message.Digests {
	if t.opts.Tail == 0 {
		return nil
	}
	out := make([]message.Digests, 0, len(t.tail)+1)
	if len(t.rounds.System) > 0 && t.messages < t.opts.Tail {
		out = append(out, t.digester.Message(message.System, t.rounds.System))
	}
	for i := max(0, len(t.tail)-t.opts.Tail); i < len(t.tail); i++ {
		out = append(out, t.digest(i))
	}
	return out
}

// History returns the newest rounds and human messages, oldest first, and the chain of
// the keys of those before them.
func (t *Transcript) History(r rounds.Rules) (items []rounds.Item, before fingerprint.Digest) {
	return t.rounds.History(r)
}

// HasTools reports whether the request offers tools or its history has calls.
func (t *Transcript) HasTools() bool { return t.rounds.HasTools() }

// Closed reports whether the conversation ends with a message that follows an answer without
// a call.
func (t *Transcript) Closed() bool { return t.rounds.Closed() }

// Turned reports whether an answer without a call has ended a turn.
func (t *Transcript) Turned() bool { return t.rounds.Turned() }

// Strays reports whether there are results of calls that the history does not have.
func (t *Transcript) Strays() bool { return t.rounds.Strays() }

// Precede returns the transcript with calls of the answer before the history. open are
// those without a result in the history.
func (t *Transcript) Precede(calls []message.ToolCall) (with *Transcript, open []message.ToolCall) {
	with = new(Transcript)
	*with = *t
	with.rounds, open = t.rounds.Precede(calls, &with.digester)
	return with, open
}

// Agent identifies the agent by its instructions and the names of its tools, in any
// order: the agents of one session differ in them.
func (t *Transcript) Agent() fingerprint.Digest {
	if t.agent.IsZero() {
		var names fingerprint.Digest
		for _, name := range t.rounds.Tools {
			message.Mix(&names, fingerprint.String(name))
		}
		t.agent = fingerprint.Chain(t.instructions(), names)
	}
	return t.agent
}
