// Package responses reads OpenAI's Responses API. Its input is a flat list of items in
// place of messages, or only the new items since an answer that the provider keeps.
package responses

import (
	"cmp"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// Responses implements provider.Provider.
type Responses struct{ openai.API }

// Name returns "openai-responses".
func (Responses) Name() string { return "openai-responses" }

// Parse reads a request for a response.
func (Responses) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := reader{Reader: openai.Reader{Reader: provider.NewReader(body, opts)}, known: opts.Known, store: true}
	p.State = p.state
	err := p.ReadMembers(p.member)
	p.Prompt.User = p.who.User()
	p.Prompt.Session = cmp.Or(p.Prompt.Session, p.who.Session)
	p.Prompt.Referable = p.store && !p.Prompt.Delta && (!p.inline || p.refers)
	return p.Parsed("Responses", err)
}

// Called reads an item of an answer's output in the way in which it is read in a
// request's history. It returns the call and the id of the item. ok is false if the
// item is not a call that the client has to answer.
func Called(item []byte) (call provider.ToolCall, id string, ok bool) {
	p := reader{Reader: openai.Reader{Reader: provider.NewReader(item, provider.Options{Items: 1})}}
	if err := jsonwalk.Text(item, p.item); err != nil {
		return call, "", false
	}
	p.endTurn()
	rounds, _ := p.T.History(provider.Rules{})
	if len(rounds) != 1 || len(rounds[0].Calls) != 1 {
		return call, "", false
	}
	call = rounds[0].Calls[0]
	return call, string(p.called), call.Result.IsZero() && !call.ID.IsZero()
}

// locate returns the located form of a body.
func locate(body []byte) (*located, error) {
	at := &located{}
	p := reader{Reader: openai.Reader{Reader: provider.NewLocator(body, &at.Tree)}, at: at}
	p.Tree = nil // the items have what its blocks would have
	err := p.ReadMembers(p.member)
	at.Places = p.Places
	return at, err
}

// Hint puts text before the instructions or, without any, before the text of a leading
// system or developer message, and into instructions of its own if there is neither;
// or behind the newest user message or tool result.
func (Responses) Hint(body []byte, text, position string) ([]byte, error) {
	t, err := locate(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	case position == provider.Result:
		return t.Append("input_text", text)
	case t.Leading.Found() && (!t.System.Found() || t.System.Kind(body) == 'n'):
		return t.Prepend("input_text", text)
	default:
		return t.Instruct("instructions", text)
	}
}

// Repair gives each call exactly one output. If the provider keeps the history, nothing
// is known about what is missing in the input. If items stand for others, by reference
// or compacted, an output may belong to a call among those.
func (Responses) Repair(body []byte) ([]byte, repair.Report, error) {
	t, err := locate(body)
	if err != nil {
		return body, repair.Report{}, fmt.Errorf("repair Responses body: %w", err)
	}
	if t.kept {
		return body, repair.Report{}, nil
	}
	items, report := repair.Flat(t.items, t.partial, lost)
	if !report.Changed() {
		return body, report, nil
	}
	return splice.Replace(body, t.List, splice.Array(items...)), report, nil
}

// lost returns the output of a call that has none.
func lost(call *repair.Item) []byte {
	return fmt.Appendf(nil, `{"type":%s,"call_id":%s,"output":%s}`, splice.Quote(call.Kind+"_output"), splice.Quote(call.ID), splice.Quote(repair.Lost))
}
