package rounds

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds/textact"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Item is one element of a history: a human message, or a round of calls.
type Item struct {
	// Human is the digest of a human message; zero for a round.
	Human fingerprint.Digest
	// Summary marks a message that an agent wrote in place of older history, or to
	// itself.
	Summary bool
	// Closed says that the item ends a turn: it is a user message behind an answer of the
	// agent's without a call, or a round of such an answer and the user message behind it.
	Closed bool
	// Calls are those of one turn of the model, at most 256.
	Calls []message.ToolCall
}

// Rules say how results are read. The zero Rules are the defaults.
type Rules struct {
	// Volatile parts of results are left out; nil for the default ones.
	Volatile *recognize.Volatile
	// Failures recognises failed results in formats that do not mark them; nil for the
	// default signs.
	Failures *recognize.Failures
	// Hints are the texts of hints, which are not results.
	Hints []string

	number uint64
}

// ruleSets is the number of rules that have a number.
var ruleSets atomic.Uint64

// Numbered returns the rules with a number, under which a Cache holds what they read. Rules
// without a number, other than the zero Rules, do not use the cache. Number the rules of a
// policy once, and not for each request.
func (r Rules) Numbered() Rules {
	r.number = ruleSets.Add(1)
	return r
}

// cached reports whether a cache may be used.
func (r *Rules) cached() bool {
	return r.number != 0 || r.Volatile == nil && r.Failures == nil && len(r.Hints) == 0
}

// History returns the newest rounds and human messages, oldest first, and the chain of
// the keys of those before them.
func (t *Rounds) History(rules Rules) (items []Item, before fingerprint.Digest) {
	if rounds := t.inText(); len(rounds) > 0 {
		return t.textHistory(rounds, &rules), before
	}
	h := &t.wire
	offered := t.offered()
	items = make([]Item, 0, len(h.slots)+1)
	midturn := make([]bool, 0, len(h.slots)+1)
	if len(h.kept) > 0 {
		items, midturn = append(items, t.keptRound(&offered, &rules)), append(midturn, false)
	}
	calls := make([]message.ToolCall, h.calls())
	for i := 0; i < len(h.slots) && !t.digester.Stopped(); i++ {
		s := h.slot(i)
		items, midturn = append(items, Item{}), append(midturn, s.midturn)
		it := &items[len(items)-1]
		it.Human, it.Summary, it.Closed = s.human, s.summary, s.closed
		if n := len(s.calls); n > 0 {
			it.Calls, calls = calls[:n:n], calls[n:]
		}
		for c := range s.calls {
			it.Calls[c] = t.call(s, c, &rules)
			it.Calls[c].NotOffered = offered.lacks(&it.Calls[c])
		}
	}
	if n := len(items); n > 0 && h.retold(t.Continues) {
		for c := range items[n-1].Calls {
			items[n-1].Calls[c].Retold = !items[n-1].Calls[c].Failed
		}
	}
	withoutReminders(items, midturn)
	return items, h.before
}

// Strays reports whether there are results of calls that the history does not have.
func (t *Rounds) Strays() bool { return len(t.wire.strays) > 0 }

// Precede returns the rounds with calls of the answer before the history, which the
// server keeps. Those with a result in the history become its first round. open are the
// others, which have no result yet.
func (t *Rounds) Precede(calls []message.ToolCall, d *message.Digester) (with Rounds, open []message.ToolCall) {
	with = *t
	with.digester = d
	with.wire.kept, open = t.wire.precede(calls)
	return with, open
}

// keptRound returns the round before the history.
func (t *Rounds) keptRound(offered *offered, rules *Rules) Item {
	it := Item{Calls: make([]message.ToolCall, len(t.wire.kept))}
	for i := range t.wire.kept {
		k := &t.wire.kept[i]
		it.Calls[i] = k.call
		t.result(&it.Calls[i], &k.result, k.content, rules)
		it.Calls[i].NotOffered = offered.lacks(&k.call)
	}
	return it
}

// offered are the tools that a request lists; none if it lists none, or not all.
type offered struct {
	names [][]byte
	set   map[string]bool // nil for few names, which are compared one by one
}

// fewNames is the largest number of names for which no set is built.
const fewNames = 16

func (t *Rounds) offered() (o offered) {
	if t.Unnamed {
		return o
	}
	if o.names = t.Tools; len(o.names) <= fewNames {
		return o
	}
	o.set = make(map[string]bool, len(o.names))
	for _, name := range o.names {
		o.set[string(name)] = true
	}
	return o
}

// lacks reports whether the tool of a call is not among those that the request lists.
func (o *offered) lacks(c *message.ToolCall) bool {
	if len(o.names) == 0 || c.Provided {
		return false
	}
	if o.set != nil {
		return !o.set[c.Tool]
	}
	return !slices.ContainsFunc(o.names, func(name []byte) bool { return string(name) == c.Tool })
}

// call returns the c-th call of a round with its result.
func (t *Rounds) call(s *slot, c int, rules *Rules) message.ToolCall {
	p := &s.calls[c]
	if p.Known != nil {
		return t.answered(*p.Known, s, c, rules) // its arguments are not here
	}
	a := &s.answers[c]
	for i := range a.read {
		if a.read[i].number == rules.number {
			return a.read[i].call
		}
	}
	var out message.ToolCall
	if cache := t.cache(rules); cache != nil {
		s.identify(t.digester, c)
		out = cache.Call(rules.number, a.sums, func() message.ToolCall { return t.readCall(s, c, rules) })
	} else {
		out = t.readCall(s, c, rules)
	}
	out.ID, out.Provided = s.id(c), p.Provided
	if t.Continues && rules.number != 0 {
		a.read = append(a.read, readCall{rules.number, out})
	}
	return out
}

// identify sets the sums of the c-th call and its result.
func (s *slot) identify(d *message.Digester, c int) {
	a := &s.answers[c]
	if a.sums != (message.CacheKey{}) {
		return
	}
	var result, content []message.Part
	if a.known && !a.result.Pending {
		result, content = []message.Part{a.result}, s.content[a.from:a.to]
	}
	a.sums = d.Cache.Sums(s.calls[c:c+1], result, content)
}

// readCall reads a call and its result.
func (t *Rounds) readCall(s *slot, c int, rules *Rules) message.ToolCall {
	p := &s.calls[c]
	args := t.digester.Arguments(p)
	tool := string(p.Name)
	is := recognize.TraitsOf(tool, args)
	out := t.answered(message.ToolCall{
		Tool: tool, Poll: is.Poll, Wait: is.Wait, Look: is.Look, Once: is.Once, Key: t.digester.Hasher.Call(tool, args),
	}, s, c, rules)
	if !out.Result.IsZero() {
		weigh(&out, args)
	}
	if a := &s.answers[c]; !out.Result.IsZero() && !out.Failed && !out.Shown && recognize.Measures(tool, args) {
		out.Result = rules.measured(t.digester.Content(s.content[a.from:a.to]))
	}
	return out
}

// cache returns the cache for some rules; nil for none. A conversation that continues keeps the calls
// that it has read with its rounds instead.
func (t *Rounds) cache(rules *Rules) *message.Cache {
	if !rules.cached() || t.Continues && rules.number != 0 {
		return nil
	}
	return t.digester.Cache
}

// answered returns a call with its result, if it has one that is final.
func (t *Rounds) answered(out message.ToolCall, s *slot, c int, rules *Rules) message.ToolCall {
	if a := &s.answers[c]; a.known && !a.result.Pending {
		t.result(&out, &a.result, s.content[a.from:a.to], rules)
	}
	return out
}

// longResult is the minimum size, in bytes, of a result that is more than an
// acknowledgement: that different calls have it is evidence.
const longResult = 32

// weigh sets what depends on the arguments and the result of a call.
func weigh(c *message.ToolCall, args []byte) {
	switch {
	case c.Shown || c.Long && recognize.Delegates(c.Tool):
		c.Loose = recognize.LooseNumbers(c.Tool, args)
	case c.Failed || c.Long:
		c.Loose = recognize.Loose(c.Tool, args, c.Failed)
	}
	c.Poll = c.Poll || recognize.Steps(c.Tool) && !c.Failed && !c.Long && !c.Shown // the same word tells nothing of where it got
	c.Empty = c.Empty && !c.Failed && recognize.Seeks(c.Tool, args)
}

// id returns the ID of the c-th call: its own id and mark or, without them, the words
// before it.
func (s *slot) id(c int) (id fingerprint.Digest) {
	for _, own := range [...][]byte{s.calls[c].ID, s.calls[c].Mark} {
		if len(own) > 0 {
			id = fingerprint.Chain(id, fingerprint.Bytes(own))
		}
	}
	if id.IsZero() {
		return s.answers[c].words
	}
	return id
}

// result adds a result to its call. It reads the result, or uses the cache.
func (t *Rounds) result(out *message.ToolCall, p *message.Part, content []message.Part, rules *Rules) {
	f := t.cache(rules).Read(rules.number, content, func() message.Reading { return t.read(content, rules) })
	out.Result, out.Ours, out.Empty, out.Long, out.Shown = f.Digest, f.Ours, f.Empty, f.Long, f.Shown
	out.Failed = f.Failed && !p.Fine || p.Failed || recognize.Asks(out.Tool) && recognize.IsUnanswered(t.digester.Content(content))
	if out.Failed {
		if out.Class = f.Class; out.Class.IsZero() {
			out.Class = recognize.ErrorClass(t.digester.Content(content))
		}
		out.Plain = recognize.IsPlainError(out.Tool, t.digester.Content(content))
		out.Look = out.Look || recognize.IsTransient(t.digester.Content(content))
	}
}

// read reads a result.
func (t *Rounds) read(content []message.Part, rules *Rules) (f message.Reading) {
	text := t.digester.Content(content)
	f.Ours = rules.Ours(text)
	text = withoutNotice(text)
	f.Failed = rules.failed(text)
	f.Digest = recognize.Result(textact.WithoutSteps(text), rules.Volatile)
	f.Empty, f.Long = recognize.IsEmpty(text), len(text) >= longResult
	if f.Failed {
		f.Class = recognize.ErrorClass(text)
	}
	if others := t.digester.Others(content); !others.IsZero() {
		f.Digest, f.Empty, f.Long, f.Shown = fingerprint.Chain(f.Digest, others), false, true, true
	}
	return f
}

// measured returns the digest of a result that tells measured times.
func (r *Rules) measured(text []byte) fingerprint.Digest {
	return recognize.Result(textact.WithoutSteps(withoutNotice(text)), r.Volatile.WithTimes())
}

func (r *Rules) failed(text []byte) bool {
	if r.Failures == nil {
		return recognize.LooksFailed(text)
	}
	return r.Failures.Match(text)
}

const (
	// mark is the word that identifies Unloop's refusals and hints.
	mark = "recursive_loop_detected"
	// oursWithin is the number of bytes within which the mark of a refusal begins: behind
	// the beginning of a JSON error or of a client's own words.
	oursWithin = 256
	// noticeWithin is the number of bytes at the end of a result within which the mark of
	// a hint begins that a tool runner put behind it. It is more than a message has.
	noticeWithin = 2048
)

// Ours reports whether a result is a refusal or a hint of Unloop's, and not that of a
// tool.
func (r *Rules) Ours(text []byte) bool {
	text = bytes.TrimSpace(text)
	return Marked(text) || slices.ContainsFunc(r.Hints, func(hint string) bool {
		return hint != "" && len(text) >= len(hint) && string(text[:len(hint)]) == hint
	})
}

// Marked reports whether a text begins as Unloop's refusals do, which have the mark near
// their beginning.
func Marked(text []byte) bool {
	return bytes.Contains(text[:min(len(text), oursWithin)], []byte(mark))
}

// InPlace reports whether a part is a text that a gateway wrote in the model's place.
func InPlace(p *message.Part) bool {
	return p.Kind == message.Text && !p.Inside && inPlace(p.Value)
}

// inPlace is InPlace for the JSON string of a text.
func inPlace(text []byte) bool {
	return bytes.HasPrefix(text, []byte(`"Stopped by Unloop: `)) && Marked(text) ||
		bytes.HasPrefix(text, []byte(`"recursive_loop_detected:`)) // as older gateways wrote it
}

// withoutNotice returns a result without the hint of Unloop's that a tool runner put
// behind it. Its numbers change while the result stays the same.
func withoutNotice(text []byte) []byte {
	from := max(0, len(text)-noticeWithin)
	if !bytes.Contains(text[from:], []byte(mark)) { // which is far faster than to look from the end
		return text
	}
	if i := bytes.LastIndex(text[from:], []byte(mark+": ")); i >= 0 {
		return text[:from+i]
	}
	return text
}
