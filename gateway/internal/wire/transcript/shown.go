package transcript

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// Shown is a round as people read it: a call with its result, or words of the agent's with
// the answer to them.
type Shown struct {
	Said, Tool, Arguments, Result string
	// id is the id of the call.
	id string
	// answered says that there is a result.
	answered bool
}

// Show returns the newest rounds among the messages that Options.Tail keeps, at most limit,
// oldest first, and the newest message of a human. Media are left out.
func (t *Transcript) Show(limit int) (rounds []Shown, human string) {
	for i := range t.tail {
		m := t.kept(i)
		switch m.role {
		case message.Assistant:
			rounds = append(rounds, t.acts(m.parts)...)
		case message.User, message.Tool:
			if text := t.answer(rounds, m.parts); text != "" {
				human = text
			}
		case message.System:
		}
	}
	return rounds[max(0, len(rounds)-limit):], human
}

// acts returns the calls of a message of the agent's, or its words if it has none.
func (t *Transcript) acts(parts []message.Part) (rounds []Shown) {
	for i := range parts {
		p := &parts[i]
		switch {
		case p.Kind != message.Call:
		case p.Known != nil:
			rounds = append(rounds, Shown{Tool: p.Known.Tool, id: string(p.ID)})
		default:
			rounds = append(rounds, Shown{Tool: string(p.Name), Arguments: string(t.digester.Arguments(p)), id: string(p.ID)})
		}
	}
	if said := t.join(texts(parts)); len(rounds) == 0 && len(said) > 0 {
		rounds = []Shown{{Said: string(said)}}
	}
	return rounds
}

// answer adds the results of a message to their calls, or its text to the agent's words. It
// returns the text of a human.
func (t *Transcript) answer(rounds []Shown, parts []message.Part) (human string) {
	for i := range parts {
		p := &parts[i]
		if p.Kind != message.Result {
			continue
		}
		if of := callOf(rounds, p); of != nil {
			of.answered, of.Result = true, string(t.join(message.Inside(parts[i+1:])))
		}
	}
	human = string(t.join(texts(parts)))
	if n := len(rounds); n > 0 && human != "" && rounds[n-1].Tool == "" && !rounds[n-1].answered {
		rounds[n-1].answered, rounds[n-1].Result = true, human
	}
	return human
}

// callOf returns the round of a result: that of its id or, where results have none, the
// first of its name without a result; nil for none.
func callOf(rounds []Shown, result *message.Part) *Shown {
	for i := range rounds {
		r := &rounds[i]
		if r.Tool == "" || r.answered {
			continue
		}
		if r.id == string(result.ID) && (r.id != "" || len(result.Name) == 0 || r.Tool == string(result.Name)) {
			return r
		}
	}
	return nil
}

// texts returns the texts of a message that are in no result.
func texts(parts []message.Part) (out []message.Part) {
	for i := range parts {
		if p := &parts[i]; p.Kind == message.Text && !p.Inside && len(bytes.TrimSpace(p.Value)) > 0 {
			out = append(out, *p)
		}
	}
	return out
}
