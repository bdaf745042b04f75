package anthropic

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// reader reads a body into a prompt and its transcript and, for hints and repairs,
// into a tree.
type reader struct {
	provider.Reader

	// called says that the content of the open message has a call that the provider's
	// code made; byCode says so of the newest message of the model.
	called, byCode bool
}

func (p *reader) member(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "model":
		p.Prompt.Model, err = w.String()
	case "stream":
		p.Prompt.Stream, err = w.Bool()
	case "metadata":
		err = p.metadata(w)
	case "output_format", "output_config":
		err = p.outputFormat(w, string(name) == "output_config")
	case "system":
		err = p.system(w)
	case "tools":
		err = w.Elements(func() error { return p.tool(w) })
	case "messages":
		err = p.ReadList(w, func() error { return p.message(w) })
	}
	return err
}

// outputFormat reads whether the answer must have a certain form. The form is the
// value itself, or one of several settings within it.
func (p *reader) outputFormat(w *jsonwalk.Walker, within bool) error {
	return w.Members(func(name []byte) error {
		p.Prompt.Structured = p.Prompt.Structured || string(name) == "type" || within && string(name) == "format" && w.Kind() == '{'
		return nil
	})
}

// tool reads the name of a tool. An element without one is a set of tools.
func (p *reader) tool(w *jsonwalk.Walker) error {
	if w.Kind() != '{' {
		return w.Skip()
	}
	var tool []byte
	err := w.Object(func(name []byte) (err error) {
		if string(name) == "name" {
			tool, err = w.Bytes()
		}
		return err
	})
	if p.T.Offer(tool); len(tool) == 0 {
		p.T.OfferUnnamed()
	}
	return err
}

func (p *reader) system(w *jsonwalk.Walker) (err error) {
	located := p.Tree
	p.Tree = nil // the instructions have no blocks of the history
	p.System, err = splice.Around(w, func() error { return p.content(w, false) })
	p.Tree = located
	p.dropBilling()
	p.T.EndSystem()
	return err
}

// dropBilling drops the block that Claude Code puts before its system prompt. It holds
// a number of the request, so that each request would look like another agent's.
func (p *reader) dropBilling() {
	const mark = `"x-anthropic-billing-header:`
	p.T.Remove(func(part message.Part) bool {
		return part.Kind == message.Text && bytes.HasPrefix(part.Value, []byte(mark))
	})
}

func (p *reader) message(w *jsonwalk.Walker) error {
	p.called = false
	m, err := p.ReadMessage(w, tree.Message{Role: repair.Other}, rolesOf, func() error { return p.content(w, false) })
	if err == nil && p.Tree != nil {
		p.locate(m)
	}
	return err
}

// locate ends a message of the tree. A user message behind calls of the provider's code
// is no place for a hint.
func (p *reader) locate(m tree.Message) {
	p.Tree.End(m)
	switch {
	case m.Speaker == message.Assistant:
		p.byCode = p.called
	case m.Speaker == message.User && p.byCode:
		p.Tree.Newest = splice.Place{}
	}
}

// rolesOf returns the role of that name in a transcript and in a repair.
func rolesOf(word []byte) (message.Role, repair.Role) {
	switch string(word) {
	case "assistant":
		return message.Assistant, repair.Assistant
	case "system":
		return message.System, repair.Other
	default:
		return message.User, repair.User
	}
}
