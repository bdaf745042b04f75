package rounds

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/message"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/rounds/textact"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// maxTurns is the maximum number of messages of a conversation without calls.
	maxTurns = 1024
	// maxPreamble is the number of bytes of the instructions that are searched for the
	// form of actions.
	maxPreamble = 256 << 10
)

// turn is a message of a conversation without calls.
type turn struct {
	agent bool
	texts [][]byte // JSON strings
}

// chat has the messages of a conversation as long as it has no calls. The rounds in
// their text are read when they are needed.
type chat struct {
	wire     bool // the conversation has calls
	spoken   bool // the agent has written; a system message then answers it
	turns    []turn
	texts    [][]byte // of all turns
	preamble [][]byte // texts of the instructions
	read     bool
	rounds   []textRound
}

// textRound is a round that was read in a text, or a human message.
type textRound struct {
	human  fingerprint.Digest
	call   message.ToolCall
	text   []byte // of the call
	result []byte
	done   bool // there is a result
}

// message adds a message.
func (a *chat) message(role message.Role, parts []message.Part) {
	if a.wire {
		return
	}
	a.spoken = a.spoken || role == message.Assistant
	from := len(a.texts)
	for i := range parts {
		switch parts[i].Kind {
		case message.Call, message.Result:
			*a = chat{wire: true}
			return
		case message.Text:
			a.texts = append(a.texts, parts[i].Value)
		case message.Other, message.Field:
		}
	}
	texts := a.texts[from:len(a.texts):len(a.texts)]
	if role == message.System && !a.spoken {
		a.preamble = append(a.preamble, texts...)
		return
	}
	if len(a.turns) >= maxTurns { // the older half goes at once
		a.turns = append(a.turns[:0], a.turns[maxTurns/2:]...)
	}
	a.turns = append(a.turns, turn{agent: role == message.Assistant, texts: texts})
}

// unescape returns the texts of a message, line by line.
func (tn *turn) unescape() []byte {
	var out []byte
	for i, text := range tn.texts {
		if i > 0 {
			out = append(out, '\n')
		}
		out = jsonwalk.AppendString(out, text)
	}
	return out
}

// exchange is a text of the agent with its action, and the answer to it.
type exchange struct {
	said     []byte
	answered []byte
	done     bool // there is an answer
	action   textact.Action
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
	switch {
	case len(list) == 0:
		a.rounds = scratchpad(first, t.wire.limit)
	case t.announced(list):
		a.rounds = agentRounds(first, list)
	default:
		a.rounds = repeatedRounds(first, list)
	}
	return a.rounds
}

// exchanges returns the text before the agent's first message, and the newest exchanges
// since then.
func (a *chat) exchanges(limit int) (first []byte, list []exchange) {
	begin := 0
	for begin < len(a.turns) && !a.turns[begin].agent {
		if begin > 0 {
			first = append(first, '\n')
		}
		first = append(first, a.turns[begin].unescape()...)
		begin++
	}
	from, spoken := len(a.turns), 0
	for from > begin && spoken < limit {
		if from--; a.turns[from].agent {
			spoken++
		}
	}
	for i := from; i < len(a.turns); i++ {
		text := a.turns[i].unescape()
		switch n := len(list) - 1; {
		case a.turns[i].agent:
			list = append(list, exchange{said: text, action: textact.Find(text)})
		case n >= 0 && list[n].done:
			list[n].answered = append(append(list[n].answered, '\n'), text...)
		case n >= 0:
			list[n].answered, list[n].done = text, true
		}
	}
	return first, list
}

// announced reports whether the conversation is that of an agent that acts in text: the
// instructions announce the form of the actions, or only agents use the form. A human's
// conversation may have fences, too; with them, most answers must look like a program's.
func (t *Rounds) announced(list []exchange) bool {
	var forms [textact.JSON + 1]int
	fenced, printed := 0, 0
	var newest textact.Action
	for i := range list {
		e := &list[i]
		forms[e.action.Form]++
		if e.action.Form != textact.None {
			newest = e.action
		}
		if e.action.Form == textact.Fence && e.done {
			fenced++
			if textact.LooksLikeResult(e.answered) {
				printed++
			}
		}
	}
	switch newest.Form {
	case textact.None:
		return false
	case textact.Fence:
		return fenced > 0 && 2*printed > fenced && t.instructed(newest.Mark)
	case textact.Label, textact.Tag, textact.JSON:
	}
	return forms[newest.Form] > 1 && bytes.ContainsAny([]byte(newest.Tool), "_") || t.instructed(newest.Mark)
}

// instructed reports whether the instructions or the first message contain a mark.
func (t *Rounds) instructed(mark string) bool {
	text := make([]byte, 0, 4096)
	add := func(raw []byte) {
		if len(text) < maxPreamble {
			text = append(jsonwalk.AppendString(text, raw), '\n')
		}
	}
	for i := range t.System {
		if t.System[i].Kind == message.Text {
			add(t.System[i].Value)
		}
	}
	for _, raw := range t.chat.preamble {
		add(raw)
	}
	for i := range t.chat.turns {
		if t.chat.turns[i].agent {
			break
		}
		for _, raw := range t.chat.turns[i].texts {
			add(raw)
		}
	}
	return bytes.Contains(text, []byte(mark))
}

// agentRounds returns the rounds of an agent with marked actions. The answer to an
// action is its result. Any other answer is a human message, unless it was sent before:
// then a harness asks for an action.
func agentRounds(first []byte, list []exchange) []textRound {
	out := opening(first)
	heard := map[fingerprint.Digest]bool{}
	for i := range list {
		e := &list[i]
		if e.action.Form != textact.None {
			out = append(out, newTextRound(e, e.action, false))
			continue
		}
		if !e.done {
			continue
		}
		human := recognize.Said(e.answered)
		if heard[human] {
			out = append(out, newTextRound(e, textact.Action{Call: e.said}, true))
			continue
		}
		heard[human] = true
		out = append(out, textRound{human: human})
	}
	return out
}

// repeatedRounds returns the rounds of a conversation in which it is not clear who
// answers. There are none until an exchange is repeated: the same action, or the same
// words without one, with the same answer.
func repeatedRounds(first []byte, list []exchange) []textRound {
	out := opening(first)
	seen, repeats := map[[2]fingerprint.Digest]bool{}, false
	for i := range list {
		e := &list[i]
		action := e.action
		if action.Form == textact.None {
			action.Call = e.said
		}
		r := newTextRound(e, action, true)
		if r.done {
			pair := [2]fingerprint.Digest{r.call.Key, recognize.Result(r.result, nil)}
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
func scratchpad(first []byte, limit int) []textRound {
	steps, begin := textact.Scratchpad(first)
	if len(steps) == 0 {
		return nil
	}
	steps = steps[max(0, len(steps)-limit):]
	out := opening(first[:begin])
	for i := range steps {
		e := exchange{said: steps[i].Action.Call, answered: steps[i].Result, done: true}
		out = append(out, newTextRound(&e, steps[i].Action, false))
	}
	return out
}

// opening returns the text before the agent's first message as a human message.
func opening(first []byte) []textRound {
	if len(bytes.TrimSpace(first)) == 0 {
		return nil
	}
	return []textRound{{human: recognize.Said(first)}}
}

func newTextRound(e *exchange, action textact.Action, soft bool) textRound {
	r := textRound{text: bytes.TrimSpace(action.Call), done: e.done, call: message.ToolCall{
		Tool: action.Tool, ID: message.CallID(e.said), Soft: soft,
		Poll: recognize.IsTextPoll(action.Tool, action.Call, action.Shell),
	}}
	r.call.Key = recognize.TextCall(action.Tool, r.text)
	if e.done {
		r.result = textact.Result(bytes.Clone(e.answered))
	}
	return r
}

// textHistory returns the history of an agent that acts in text.
func textHistory(rounds []textRound, rules *Rules) []Item {
	items := make([]Item, len(rounds))
	for i := range rounds {
		r := &rounds[i]
		if len(r.text) == 0 && !r.human.IsZero() {
			items[i].Human = r.human
			continue
		}
		call := r.call
		if r.done {
			call.Ours = rules.Ours(r.result)
			text := withoutNotice(r.result)
			if call.Failed = rules.failed(text); call.Failed {
				call.Class = recognize.ErrorClass(text)
			}
			call.Result = recognize.Result(text, rules.Volatile)
			if call.Failed || len(text) >= longResult {
				call.Loose = recognize.Loose(call.Tool, r.text, call.Failed)
			}
		}
		items[i].Calls = []message.ToolCall{call}
	}
	return items
}
