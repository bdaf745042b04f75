package transcript

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/textact"
	"github.com/unloop/unloop/gateway/internal/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// maxTurns bounds the messages that are kept of a conversation without calls.
	maxTurns = 1024
	// maxPreamble bounds the instructions that are searched for the form of actions.
	maxPreamble = 256 << 10
)

// turn is a message of a conversation without calls on the wire.
type turn struct {
	agent bool
	texts [][]byte // JSON strings
}

// acts keeps the messages of a conversation as long as it has no calls on the
// wire, and reads the actions out of their text when they are asked for.
type acts struct {
	wire     bool // the wire has calls
	spoken   bool // the agent has; what the system says then answers it
	turns    []turn
	preamble [][]byte // texts of the instructions
	read     bool
	rounds   []textRound
}

// textRound is a round that was read out of text, or a human message.
type textRound struct {
	human  fingerprint.Digest
	call   ToolCall
	text   []byte // of the call
	result []byte
	done   bool // the result is there
}

// message takes a message.
func (a *acts) message(role Role, parts []Part) {
	if a.wire {
		return
	}
	a.spoken = a.spoken || role == Assistant
	var texts [][]byte
	for i := range parts {
		switch parts[i].Kind {
		case Call, Result:
			*a = acts{wire: true}
			return
		case Text:
			texts = append(texts, parts[i].Value)
		case Other, Field:
		}
	}
	switch {
	case role == System && !a.spoken:
		a.preamble = append(a.preamble, texts...)
	case len(a.turns) < maxTurns:
		a.turns = append(a.turns, turn{agent: role == Assistant, texts: texts})
	default:
		a.turns = append(a.turns[:0], a.turns[maxTurns/2:]...)
		a.turns = append(a.turns, turn{agent: role == Assistant, texts: texts})
	}
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

// exchanged is what the agent wrote and what it was answered.
type exchanged struct {
	said     []byte
	answered []byte
	done     bool // it was answered
	action   textact.Action
}

// textRounds returns the rounds that the conversation has in its text; none for a
// chat.
func (t *Transcript) textRounds() []textRound {
	a := &t.acts
	if a.read || a.wire || t.opts.Items == 0 {
		return a.rounds
	}
	a.read = true
	first, list := a.exchanges(t.opts.Items)
	switch {
	case len(list) == 0:
		a.rounds = t.scratchpad(first)
	case t.announced(list):
		a.rounds = t.agentRounds(first, list)
	default:
		a.rounds = t.repeatedRounds(first, list)
	}
	return a.rounds
}

// exchanges returns what came before the agent spoke first, and the newest
// exchanges since then.
func (a *acts) exchanges(limit int) (first []byte, list []exchanged) {
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
			list = append(list, exchanged{said: text, action: textact.Find(text)})
		case n >= 0 && list[n].done:
			list[n].answered = append(append(list[n].answered, '\n'), text...)
		case n >= 0:
			list[n].answered, list[n].done = text, true
		}
	}
	return first, list
}

// announced reports whether the conversation is an agent's that acts in text: its
// instructions announce the form of the actions, or the form is one that nobody
// but agents uses. A fence is not: chats have them, too. It then takes answers
// that look like a program's.
func (t *Transcript) announced(list []exchanged) bool {
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
func (t *Transcript) instructed(mark string) bool {
	text := make([]byte, 0, 4096)
	add := func(raw []byte) {
		if len(text) < maxPreamble {
			text = append(jsonwalk.AppendString(text, raw), '\n')
		}
	}
	for i := range t.system {
		if t.system[i].Kind == Text {
			add(t.system[i].Value)
		}
	}
	for _, raw := range t.acts.preamble {
		add(raw)
	}
	for i := range t.acts.turns {
		if t.acts.turns[i].agent {
			break
		}
		for _, raw := range t.acts.turns[i].texts {
			add(raw)
		}
	}
	return bytes.Contains(text, []byte(mark))
}

// agentRounds are the rounds of an agent whose actions are marked. What follows an
// action is its result. What follows anything else is a human message, unless it
// was sent before: then it is a harness that asks for an action.
func (t *Transcript) agentRounds(first []byte, list []exchanged) []textRound {
	out := t.opening(first)
	heard := map[fingerprint.Digest]bool{}
	for i := range list {
		e := &list[i]
		if e.action.Form != textact.None {
			out = append(out, t.textRound(e, e.action, false))
			continue
		}
		if !e.done {
			continue
		}
		human := recognize.Said(e.answered)
		if heard[human] {
			out = append(out, t.textRound(e, textact.Action{Call: e.said}, true))
			continue
		}
		heard[human] = true
		out = append(out, textRound{human: human})
	}
	return out
}

// repeatedRounds are the rounds of a conversation in which it is not clear who
// answers. It has none until an exchange comes back: the same action, or the same
// words where there is none, with the same answer.
func (t *Transcript) repeatedRounds(first []byte, list []exchanged) []textRound {
	out := t.opening(first)
	seen, repeats := map[[2]fingerprint.Digest]bool{}, false
	for i := range list {
		e := &list[i]
		action := e.action
		if action.Form == textact.None {
			action.Call = e.said
		}
		r := t.textRound(e, action, true)
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

// scratchpad are the rounds that an agent wrote into its only message.
func (t *Transcript) scratchpad(first []byte) []textRound {
	steps, begin := textact.Scratchpad(first)
	if len(steps) == 0 {
		return nil
	}
	steps = steps[max(0, len(steps)-t.opts.Items):]
	out := t.opening(first[:begin])
	for i := range steps {
		e := exchanged{said: steps[i].Action.Call, answered: steps[i].Result, done: true}
		out = append(out, t.textRound(&e, steps[i].Action, false))
	}
	return out
}

func (t *Transcript) opening(first []byte) []textRound {
	if len(bytes.TrimSpace(first)) == 0 {
		return nil
	}
	return []textRound{{human: recognize.Said(first)}}
}

func (t *Transcript) textRound(e *exchanged, action textact.Action, soft bool) textRound {
	r := textRound{text: bytes.TrimSpace(action.Call), done: e.done, call: ToolCall{
		Tool: action.Tool, ID: fingerprint.Chain(fingerprint.Digest{}, fingerprint.Bytes(e.said)), Soft: soft,
		Poll: recognize.IsTextPoll(action.Tool, action.Call, action.Shell),
	}}
	r.call.Key = recognize.TextCall(action.Tool, r.text)
	if e.done {
		r.result = textact.Result(bytes.Clone(e.answered))
	}
	return r
}

// textHistory is the history of an agent that acts in text.
func (t *Transcript) textHistory(rounds []textRound, rules *Rules) []Item {
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
		items[i].Calls = []ToolCall{call}
	}
	return items
}
