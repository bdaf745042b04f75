package rounds

import (
	"bytes"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds/textact"
	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// maxTurns is the maximum number of messages of a conversation without calls.
	maxTurns = 1024
	// usualTurns is room for the messages of most conversations.
	usualTurns = 16
	// maxPreamble is the number of bytes of the instructions that are searched for the
	// form of actions.
	maxPreamble = 256 << 10
)

// turn is a message of a conversation without calls.
type turn struct {
	agent bool
	// texts are JSON strings, and objects for media.
	texts [][]byte
}

// chat has the messages of a conversation as long as it has no calls. The rounds in
// their text are read when they are needed.
type chat struct {
	wire     bool // the conversation has calls
	spoken   bool // the agent has written; a system message then answers it
	turns    []turn
	texts    [][]byte // of all turns
	preamble [][]byte // those of the instructions
	read     bool
	rounds   []textRound
}

// textRound is a round that was read in a text, or a human message.
type textRound struct {
	human  fingerprint.Digest
	closed bool // it ends a turn
	call   message.ToolCall
	done   bool      // there is a result
	of     *exchange // nil for a round in a scratchpad
	// text and result are those of a round in a scratchpad.
	text, result []byte
}

// message adds a message.
func (a *chat) message(role message.Role, parts []message.Part) {
	if a.wire {
		return
	}
	a.spoken = a.spoken || role == message.Assistant
	a.read, a.rounds = false, nil
	if a.turns == nil {
		a.turns, a.texts = make([]turn, 0, usualTurns), make([][]byte, 0, usualTurns)
	}
	from := len(a.texts)
	for i := range parts {
		switch parts[i].Kind {
		case message.Call, message.Result:
			*a = chat{wire: true}
			return
		case message.Text, message.Other:
			a.texts = append(a.texts, parts[i].Value)
		case message.Field:
		}
	}
	texts := a.texts[from:len(a.texts):len(a.texts)]
	if role == message.System && !a.spoken {
		a.preamble = append(a.preamble, texts...)
		return
	}
	if len(a.turns) >= maxTurns { // the older half goes at once
		a.turns, a.texts = append(a.turns[:0], a.turns[maxTurns/2:]...), nil
	}
	a.turns = append(a.turns, turn{agent: role == message.Assistant, texts: texts})
}

// inText returns the rounds in the text of the conversation; none for a conversation
// with a human alone.
func (t *Rounds) inText() []textRound {
	a := &t.chat
	if a.read || a.wire || t.wire.limit == 0 {
		return a.rounds
	}
	a.read = true
	first, list := a.exchanges(t.wire.limit)
	for i := 0; i < len(list) && !t.digester.Stopped(); i++ {
		list[i].sums = t.digester.Cache.Sums(list[i].parts(t.digester))
		list[i].read = t.digester.Cache.Exchange(list[i].sums, func() message.Exchange { return list[i].readAll(t.digester) })
	}
	switch {
	case len(list) == 0:
		a.rounds = scratchpad(t.digester, join(first), t.wire.limit)
	case t.announced(list):
		a.rounds = agentRounds(t.opening(first), list)
	default:
		a.rounds = repeatedRounds(t.opening(first), list)
	}
	return a.rounds
}

// announced reports whether the conversation is that of an agent that acts in text: the
// instructions announce the form of the actions, or only agents use the form. A human's
// conversation may have fences, too; with them, most answers must look like a program's.
func (t *Rounds) announced(list []exchange) bool {
	var forms [textact.JSON + 1]int
	fenced, printed := 0, 0
	var newest *message.Exchange
	for i := range list {
		e := &list[i]
		forms[e.read.Form]++
		if e.form() != textact.None {
			newest = &e.read
		}
		if e.form() == textact.Fence && e.done() {
			fenced++
			if e.read.Printed {
				printed++
			}
		}
	}
	switch {
	case newest == nil:
		return false
	case textact.Form(newest.Form) == textact.Fence:
		return fenced > 0 && 2*printed > fenced && t.instructed(newest.Mark)
	}
	return forms[newest.Form] > 1 && strings.Contains(newest.Tool, "_") || t.instructed(newest.Mark)
}

// instructed reports whether the instructions or the first message contain a mark.
func (t *Rounds) instructed(mark string) bool {
	d := t.digester
	d.Parts = append(d.Parts[:0], message.Part{Kind: message.Field, Name: []byte(mark)})
	for i := range t.System {
		if t.System[i].Kind == message.Text {
			d.Parts = append(d.Parts, message.Part{Value: t.System[i].Value})
		}
	}
	for _, raw := range t.chat.preamble {
		d.Parts = append(d.Parts, message.Part{Value: raw})
	}
	for i := 0; i < len(t.chat.turns) && !t.chat.turns[i].agent; i++ {
		for _, raw := range t.chat.turns[i].texts {
			d.Parts = append(d.Parts, message.Part{Value: raw})
		}
	}
	d.Parts = slices.DeleteFunc(d.Parts, func(p message.Part) bool { return p.Kind == message.Text && !isText(p.Value) })
	return d.Cache.Read(message.InstructedWay, d.Parts, func() message.Reading {
		return message.Reading{Human: contains(d.Parts[1:], mark)}
	}).Human
}

// contains reports whether texts contain a mark near their beginning.
func contains(texts []message.Part, mark string) bool {
	text := make([]byte, 0, 4096)
	for i := range texts {
		if len(text) < maxPreamble {
			text = append(jsonwalk.AppendString(text, texts[i].Value), '\n')
		}
	}
	return bytes.Contains(text, []byte(mark))
}

// agentRounds returns the rounds of an agent with marked actions. The answer to an
// action is its result. Any other answer is a human message, unless it was sent before:
// then a harness asks for an action.
func agentRounds(out []textRound, list []exchange) []textRound {
	heard := map[fingerprint.Digest]bool{}
	for i := range list {
		e := &list[i]
		switch human := e.read.Human; {
		case e.form() != textact.None:
			out = append(out, e.round(false))
		case !e.done():
		case heard[human]:
			out = append(out, e.round(true))
		default:
			heard[human] = true
			out = append(out, textRound{human: human, closed: e.closes()})
		}
	}
	return out
}

// repeatedRounds returns the rounds of a conversation in which it is not clear who
// answers. There are none until an exchange is repeated: the same action, or the same
// words without one, with the same answer.
func repeatedRounds(out []textRound, list []exchange) []textRound {
	seen, repeats := map[[2]fingerprint.Digest]bool{}, false
	for i := range list {
		r := list[i].round(true)
		if r.done {
			pair := [2]fingerprint.Digest{r.call.Key, list[i].read.Answer}
			repeats = repeats || seen[pair]
			seen[pair] = true
		}
		out = append(out, r)
	}
	if !repeats {
		return nil
	}
	return out
}

// scratchpad returns the rounds that an agent wrote into its only message, at most limit.
func scratchpad(d *message.Digester, first []byte, limit int) []textRound {
	steps, begin := textact.Scratchpad(first)
	if len(steps) == 0 {
		return nil
	}
	steps = steps[max(0, len(steps)-limit):]
	var out []textRound
	if human := said(d, first[:begin]); !human.IsZero() {
		out = append(out, textRound{human: human})
	}
	for i := range steps {
		own := steps[i].Action
		out = append(out, textRound{
			call: textCall(own.Call, &own), done: true, text: bytes.TrimSpace(own.Call), result: textact.Result(bytes.Clone(steps[i].Answer)),
		})
	}
	return out
}

// opening returns the words before the agent's first message as a human message.
func (t *Rounds) opening(first []turn) []textRound {
	d := t.digester
	d.Parts = d.Parts[:0]
	for i := range first {
		d.Parts = first[i].appendTo(d.Parts, message.Field)
	}
	human := d.Cache.Read(message.FirstWay, d.Parts, func() message.Reading { return message.Reading{Digest: heard(d, first)} }).Digest
	if human.IsZero() {
		return nil
	}
	return []textRound{{human: human}}
}

// said returns the digest of a human's words; zero if there are none.
func said(d *message.Digester, text []byte) (sum fingerprint.Digest) {
	if len(bytes.TrimSpace(text)) == 0 {
		return sum
	}
	return d.Hasher.Said(text)
}

// heard returns the digest of the words and the media of messages; zero if there are none.
func heard(d *message.Digester, turns []turn) fingerprint.Digest {
	return withMedia(d, said(d, join(turns)), turns)
}

// textHistory returns the history of an agent that acts in text.
func (t *Rounds) textHistory(rounds []textRound, rules *Rules) []Item {
	items := make([]Item, len(rounds))
	for i := 0; i < len(rounds) && !t.digester.Stopped(); i++ {
		r := &rounds[i]
		items[i].Closed = r.closed
		if !r.human.IsZero() {
			items[i].Human = r.human
			continue
		}
		call := r.call
		switch read := func() message.ToolCall { return rules.readRound(t.digester, r) }; {
		case !r.done:
		case r.of == nil:
			call = read()
		default:
			call = t.cache(rules).Call(message.TextWay+rules.number, r.of.sums, read)
			call.Soft = r.call.Soft
		}
		items[i].Calls = []message.ToolCall{call}
	}
	return items
}

// readRound returns the call of a round with its result.
func (r *Rules) readRound(d *message.Digester, of *textRound) message.ToolCall {
	call := of.call
	text, result := of.words()
	call.Ours = r.Ours(result)
	whole := len(result)
	result = withoutNotice(result)
	if call.Failed = r.failed(result); call.Failed {
		call.Class, call.Plain = recognize.ErrorClass(result), recognize.IsPlainText(result)
		call.Look = call.Look || recognize.IsTransient(result)
	}
	switch measures := !call.Failed && recognize.Measures(call.Tool, text); {
	case of.of == nil:
		call.Result = r.digest(result, measures)
	case !measures && len(result) == whole && r.Volatile.IsDefault():
		call.Result = of.of.read.Answer // which is the same
	default:
		call.Result = withMedia(d, r.digest(result, measures), of.of.answers)
	}
	if call.Failed || len(result) >= longResult {
		call.Loose = recognize.Loose(call.Tool, text, call.Failed)
	}
	return call
}

// digest returns the digest of a result, which may tell measured times.
func (r *Rules) digest(result []byte, measures bool) fingerprint.Digest {
	if measures {
		return r.measured(result)
	}
	return recognize.Result(result, r.Volatile)
}
