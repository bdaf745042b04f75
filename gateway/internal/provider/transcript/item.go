package transcript

import (
	"bytes"
	"sync/atomic"

	"github.com/unloop/unloop/gateway/internal/provider/transcript/textact"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Item is one element of a history: a human message, or a round of calls.
type Item struct {
	// Human is the digest of a human message; zero for a round.
	Human fingerprint.Digest
	// Summary marks a message that an agent wrote in place of older history.
	Summary bool
	// Calls are those that the model made in one turn, at most 256.
	Calls []ToolCall
}

// ToolCall is one call of a round and what it brought.
type ToolCall struct {
	Tool string
	// Key is recognize.Call.
	Key fingerprint.Digest
	// Result is recognize.Result of what the tool answered; zero while that is
	// not known or not final.
	Result fingerprint.Digest
	// Class is recognize.ErrorClass of the result of a failed call.
	Class fingerprint.Digest
	// ID tells this call from an equal one: its call id, its signature, and the
	// words around it. Zero where it has none of these.
	ID fingerprint.Digest
	// Failed says that the result reports an error.
	Failed bool
	// Poll is recognize.IsPoll.
	Poll bool
	// NotOffered says that the request lists its tools, and this one is not among
	// them.
	NotOffered bool
	// Provided says that the tool is the provider's, which a request need not list.
	Provided bool
	// Ours says that the result is what Unloop itself said.
	Ours bool
	// Loose is the key without the values that change by themselves and, for a
	// failed call, without numbers. It is zero where that is no evidence.
	Loose fingerprint.Digest
	// Soft says that the call was read out of text that may be no action.
	Soft bool
	// Empty says that the result tells of nothing, and that the call is one that
	// looks for something.
	Empty bool
	// Long says that the result is more than an acknowledgement.
	Long bool
}

// Rules say how results are read. The zero Rules read them in the usual way.
type Rules struct {
	// Volatile parts are left out; nil for the usual ones.
	Volatile *recognize.Volatile
	// Failures recognises failed results where the format has no mark for them; nil
	// for the usual signs.
	Failures *recognize.Failures
	// Hints are the texts of hints, which in a history are no results.
	Hints []string

	number uint64
}

// ruleSets counts the rules that were numbered.
var ruleSets atomic.Uint64

// Numbered returns the rules with a number of their own, under which a Cache
// remembers what they found. Rules without one, other than the zero Rules, are
// not remembered for. Number them once for a policy, not for a request.
func (r Rules) Numbered() Rules {
	r.number = ruleSets.Add(1)
	return r
}

// remembered says whether a cache may be asked.
func (r *Rules) remembered() bool {
	return r.number != 0 || r.Volatile == nil && r.Failures == nil && len(r.Hints) == 0
}

// History returns the newest rounds and human messages, oldest first, and the chain
// of the keys of those before them.
func (t *Transcript) History(rules Rules) (items []Item, before fingerprint.Digest) {
	if rounds := t.textRounds(); len(rounds) > 0 {
		return t.textHistory(rounds, &rules), before
	}
	h := &t.history
	offered := t.offered()
	items = make([]Item, 0, len(h.slots)+1)
	midturn := make([]bool, 0, len(h.slots)+1)
	if len(h.kept) > 0 {
		items, midturn = append(items, t.keptRound(offered, &rules)), append(midturn, false)
	}
	for i := range h.slots {
		s := &h.slots[(h.next+i)%len(h.slots)]
		items, midturn = append(items, Item{}), append(midturn, s.midturn)
		it := &items[len(items)-1]
		it.Human, it.Summary = s.human, s.summary
		if len(s.calls) > 0 {
			it.Calls = make([]ToolCall, len(s.calls))
		}
		for c := range s.calls {
			it.Calls[c] = t.call(s, c, &rules)
			it.Calls[c].NotOffered = notOffered(offered, &it.Calls[c])
		}
	}
	withoutReminders(items, midturn)
	return items, h.before
}

// Strays says whether there are results of calls that the history does not have.
func (t *Transcript) Strays() bool { return len(t.history.strays) > 0 }

// Precede tells of calls that stand in the answer before the history, which the
// server keeps: those that the history has results for are its first round. It
// returns the others, which are still to be answered.
func (t *Transcript) Precede(calls []ToolCall) (open []ToolCall) { return t.history.precede(calls) }

// keptRound is the round before the history.
func (t *Transcript) keptRound(offered map[string]bool, rules *Rules) Item {
	it := Item{Calls: make([]ToolCall, len(t.history.kept))}
	for i := range t.history.kept {
		k := &t.history.kept[i]
		it.Calls[i] = k.call
		t.result(&it.Calls[i], &k.result, k.content, rules)
		it.Calls[i].NotOffered = notOffered(offered, &k.call)
	}
	return it
}

func notOffered(offered map[string]bool, c *ToolCall) bool {
	return offered != nil && !c.Provided && !offered[c.Tool]
}

// callID is the ID of a call that has nothing but a call id.
func callID(id []byte) fingerprint.Digest {
	return fingerprint.Chain(fingerprint.Digest{}, fingerprint.Bytes(id))
}

// offered is the set of tools that the request lists; nil if it lists none, or not
// all.
func (t *Transcript) offered() map[string]bool {
	if len(t.tools) == 0 || t.unnamed {
		return nil
	}
	set := make(map[string]bool, len(t.tools))
	for _, name := range t.tools {
		set[string(name)] = true
	}
	return set
}

func (t *Transcript) call(s *slot, c int, rules *Rules) ToolCall {
	p := &s.calls[c]
	if p.Known != nil {
		return t.answered(*p.Known, s, c, rules) // its arguments are not here
	}
	args := t.digester.arguments(p)
	tool := string(p.Name)
	out := t.answered(ToolCall{
		Tool: tool, Poll: recognize.IsPoll(tool, args), Key: t.digester.canon.Call(tool, args), ID: s.id(p), Provided: p.Provided,
	}, s, c, rules)
	if !out.Result.IsZero() {
		out.weigh(args)
	}
	return out
}

// answered is a call with its result, if it has one that is final.
func (t *Transcript) answered(out ToolCall, s *slot, c int, rules *Rules) ToolCall {
	if a := &s.answers[c]; a.known && !a.result.Pending {
		t.result(&out, &a.result, s.content[a.from:a.to], rules)
	}
	return out
}

// longResult is from how many bytes on a result is more than an acknowledgement:
// the same one for different calls then says something.
const longResult = 32

// weigh says what a call's result makes of it, beyond the result itself.
func (c *ToolCall) weigh(args []byte) {
	if c.Failed || c.Long {
		c.Loose = recognize.Loose(c.Tool, args, c.Failed)
	}
	c.Empty = c.Empty && !c.Failed && recognize.Seeks(c.Tool, args)
}

// id is zero for a call that has nothing of its own.
func (s *slot) id(p *Part) (id fingerprint.Digest) {
	for _, own := range [...][]byte{p.ID, p.Mark} {
		if len(own) > 0 {
			id = fingerprint.Chain(id, fingerprint.Bytes(own))
		}
	}
	if !s.words.IsZero() {
		id = fingerprint.Chain(id, s.words)
	}
	return id
}

// result reads what a tool answered, or remembers it.
func (t *Transcript) result(out *ToolCall, p *Part, content []Part, rules *Rules) {
	cache := t.digester.cache
	if !rules.remembered() {
		cache = nil
	}
	way := rules.number + 1
	key, ok := cache.key(way, content)
	var f finding
	known := false
	if ok {
		f, known = cache.get(key)
	}
	if !known {
		f = t.read(content, rules)
	}
	if ok && !known {
		cache.set(key, f)
	}
	out.Result, out.Ours, out.Empty, out.Long = f.digest, f.ours, f.empty, f.long
	out.Failed = f.failed && !p.Fine || p.Failed
	if out.Failed {
		if out.Class = f.class; out.Class.IsZero() {
			out.Class = recognize.ErrorClass(t.digester.content(content))
		}
	}
}

// read finds out what a result says.
func (t *Transcript) read(content []Part, rules *Rules) (f finding) {
	text := t.digester.content(content)
	f.ours = rules.Ours(text)
	text = withoutNotice(text)
	f.failed = rules.failed(text)
	f.digest = recognize.Result(textact.WithoutSteps(text), rules.Volatile)
	f.empty, f.long = recognize.IsEmpty(text), len(text) >= longResult
	if f.failed {
		f.class = recognize.ErrorClass(text)
	}
	if others := t.digester.others(content); !others.IsZero() {
		f.digest, f.empty = fingerprint.Chain(f.digest, others), false
	}
	return f
}

func (r *Rules) failed(text []byte) bool {
	if r.Failures == nil {
		return recognize.LooksFailed(text)
	}
	return r.Failures.Match(text)
}

const (
	// mark is the word by which our refusals and hints are known.
	mark = "recursive_loop_detected"
	// oursWithin is how far into a text the mark of our refusals stands: behind the
	// beginnings of a JSON error or of a client's own words.
	oursWithin = 256
	// noticeWithin is how far before a text's end the mark of a hint stands that a
	// tool runner put behind a result: longer than our messages are.
	noticeWithin = 2048
)

// Ours reports whether a result is a refusal or a hint of Unloop's, rather than a
// tool's answer.
func (r *Rules) Ours(text []byte) bool {
	text = bytes.TrimSpace(text)
	if bytes.Contains(text[:min(len(text), oursWithin)], []byte(mark)) {
		return true
	}
	for _, hint := range r.Hints {
		if hint != "" && len(text) >= len(hint) && string(text[:len(hint)]) == hint {
			return true
		}
	}
	return false
}

// withoutNotice is a result without what a tool runner put behind it of our words,
// which count on while the result stays the same.
func withoutNotice(text []byte) []byte {
	from := max(0, len(text)-noticeWithin)
	if i := bytes.LastIndex(text[from:], []byte(mark+": ")); i >= 0 {
		return text[:from+i]
	}
	return text
}
