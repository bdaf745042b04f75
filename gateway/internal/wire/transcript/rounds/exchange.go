package rounds

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds/textact"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// exchange is a message of the agent's and the answers to it.
type exchange struct {
	said    *turn
	answers []turn
	// sums identify the message with the answers in a cache.
	sums message.CacheKey
	read message.Exchange
	// text and result are those of words if the exchange was read just now.
	text, result []byte
}

// exchanges returns the messages before the agent's first one, and the newest exchanges
// since then.
func (a *chat) exchanges(limit int) (first []turn, list []exchange) {
	begin := 0
	for begin < len(a.turns) && !a.turns[begin].agent {
		begin++
	}
	from, spoken := len(a.turns), 0
	for from > begin && spoken < limit {
		if from--; a.turns[from].agent {
			spoken++
		}
	}
	list = make([]exchange, 0, spoken)
	for i := from; i < len(a.turns); i++ {
		if a.turns[i].agent {
			list = append(list, exchange{said: &a.turns[i]})
			continue
		}
		e := &list[len(list)-1]
		e.answers = a.turns[i-len(e.answers) : i+1]
	}
	return a.turns[:begin], list
}

// form returns the form of the action in the message.
func (e *exchange) form() textact.Form { return textact.Form(e.read.Form) }

// done reports whether there is an answer.
func (e *exchange) done() bool { return len(e.answers) > 0 }

// closes reports whether the message ends a turn: the agent answers, and a message follows.
func (e *exchange) closes() bool {
	return e.done() && e.form() == textact.None && !slices.ContainsFunc(e.said.texts, inPlace)
}

// parts returns the texts of an exchange as parts of a message, in the digester's buffer.
func (e *exchange) parts(d *message.Digester) []message.Part {
	d.Parts = e.said.appendTo(d.Parts[:0], message.Call)
	for i := range e.answers {
		d.Parts = e.answers[i].appendTo(d.Parts, message.Result)
	}
	return d.Parts
}

// appendTo appends the texts of a message behind a part of a kind, which tells where the
// message begins.
func (tn *turn) appendTo(parts []message.Part, kind message.Kind) []message.Part {
	parts = append(parts, message.Part{Kind: kind})
	for _, raw := range tn.texts {
		if isText(raw) {
			parts = append(parts, message.Part{Kind: message.Text, Value: raw})
		} else {
			parts = append(parts, message.Part{Kind: message.Other, Value: raw})
		}
	}
	return parts
}

// isText reports whether content of a message is a text, and no media.
func isText(raw []byte) bool { return len(raw) == 0 || raw[0] == '"' }

// action returns the text of the message and the action in it; the whole text is the call
// if there is none.
func (e *exchange) action() (said []byte, action textact.Action) {
	said = join([]turn{*e.said})
	if action = textact.Find(said); action.Form == textact.None {
		action = textact.Action{Call: said}
	}
	return said, action
}

// readAll reads the message and the answers.
func (e *exchange) readAll(d *message.Digester) message.Exchange {
	said, action := e.action()
	x := message.Exchange{Form: uint8(action.Form), Mark: action.Mark, Tool: action.Tool, Call: textCall(said, &action)}
	if e.done() {
		answer := join(e.answers)
		x.Printed = action.Form == textact.Fence && textact.LooksLikeResult(answer)
		x.Human = withMedia(d, d.Hasher.Said(answer), e.answers)
		e.result = textact.Result(answer)
		x.Answer = withMedia(d, recognize.Result(e.result, nil), e.answers)
	}
	e.text = bytes.TrimSpace(action.Call)
	return x
}

// round returns the exchange as a round. soft says that the message may be no action.
func (e *exchange) round(soft bool) textRound {
	r := textRound{call: e.read.Call, done: e.done(), closed: e.closes(), of: e}
	r.call.Soft = soft
	return r
}

// words returns the text of a round's call and its result.
func (r *textRound) words() (text, result []byte) {
	switch {
	case r.of == nil:
		return r.text, r.result
	case r.of.result != nil:
		return r.of.text, r.of.result
	}
	_, action := r.of.action()
	return bytes.TrimSpace(action.Call), textact.Result(join(r.of.answers))
}

// textCall returns the call that was read in a message, without its result.
func textCall(said []byte, action *textact.Action) message.ToolCall {
	is := recognize.TextTraitsOf(action.Tool, action.Call, action.Shell)
	return message.ToolCall{
		Tool: action.Tool, ID: message.CallID(said), Poll: is.Poll, Wait: is.Wait, Look: is.Look, Once: is.Once,
		Key: recognize.TextCall(action.Tool, bytes.TrimSpace(action.Call)),
	}
}

// join returns the texts of messages, line by line.
func join(turns []turn) (out []byte) {
	for i := range turns {
		if i > 0 {
			out = append(out, '\n')
		}
		some := false
		for _, text := range turns[i].texts {
			if !isText(text) {
				continue
			}
			if some {
				out = append(out, '\n')
			}
			out, some = jsonwalk.AppendString(out, text), true
		}
	}
	return out
}

// withMedia returns the digest of messages, given that of their texts.
func withMedia(d *message.Digester, text fingerprint.Digest, turns []turn) fingerprint.Digest {
	var parts []message.Part
	for i := range turns {
		for _, raw := range turns[i].texts {
			if !isText(raw) {
				parts = append(parts, message.Part{Kind: message.Other, Value: raw})
			}
		}
	}
	if len(parts) == 0 {
		return text
	}
	return fingerprint.Chain(text, d.Others(parts))
}
