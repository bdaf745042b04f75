package rounds

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/message"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/rounds/textact"
	"github.com/unloop/unloop/gateway/internal/recognize"
)

// exchange is a message of the agent's and the answers to it.
type exchange struct {
	said    *turn
	answers []turn
	read    message.Exchange
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
	for _, text := range tn.texts {
		parts = append(parts, message.Part{Kind: message.Text, Value: text})
	}
	return parts
}

// action returns the text of the message and the action in it; the whole text is the call
// where there is none.
func (e *exchange) action() (said []byte, action textact.Action) {
	said = join([]turn{*e.said})
	if action = textact.Find(said); action.Form == textact.None {
		action = textact.Action{Call: said}
	}
	return said, action
}

// readAll reads the message and the answers.
func (e *exchange) readAll() message.Exchange {
	said, action := e.action()
	x := message.Exchange{Form: uint8(action.Form), Mark: action.Mark, Tool: action.Tool, Call: textCall(said, &action)}
	if e.done() {
		answer := join(e.answers)
		x.Printed = action.Form == textact.Fence && textact.LooksLikeResult(answer)
		x.Human, x.Answer = recognize.Said(answer), recognize.Result(textact.Result(answer), nil)
	}
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
	if r.of == nil {
		return r.text, r.result
	}
	_, action := r.of.action()
	return bytes.TrimSpace(action.Call), textact.Result(join(r.of.answers))
}

// textCall returns the call that was read in a message, without its result.
func textCall(said []byte, action *textact.Action) message.ToolCall {
	return message.ToolCall{
		Tool: action.Tool, ID: message.CallID(said), Poll: recognize.IsTextPoll(action.Tool, action.Call, action.Shell),
		Key: recognize.TextCall(action.Tool, bytes.TrimSpace(action.Call)),
	}
}

// join returns the texts of messages, line by line.
func join(turns []turn) (out []byte) {
	for i := range turns {
		if i > 0 {
			out = append(out, '\n')
		}
		for j, text := range turns[i].texts {
			if j > 0 {
				out = append(out, '\n')
			}
			out = jsonwalk.AppendString(out, text)
		}
	}
	return out
}
