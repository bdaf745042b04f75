package responses

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// item has the members of an element of the input that matter.
type item struct {
	at                            int // in the open message
	place, content, output        splice.Place
	kind, role                    []byte
	id, callID, name, args, fault []byte
	pending                       bool
	answered                      bool
}

// item reads one element of the input. What the model says and calls in a row is one
// message; every other item is a message of its own.
func (p *reader) item(w *jsonwalk.Walker) error {
	it := item{at: p.T.Len()}
	it.place.From = w.Offset()
	if err := w.Object(func(name []byte) error { return p.itemMember(w, name, &it) }); err != nil {
		return err
	}
	it.place.To = w.Offset()
	if p.at != nil {
		p.at.item(&it)
	}
	switch {
	case it.isReference():
		p.reference(&it)
	case len(it.kind) == 0, string(it.kind) == "message":
		p.message(&it)
	case string(it.kind) == "tool_search_output":
		p.T.OfferUnnamed()
		p.result(&it)
	case string(it.kind) == "additional_tools":
		p.T.OfferUnnamed()
		p.T.Cut(it.at)
	case bytes.HasSuffix(it.kind, []byte("_call_output")), bytes.HasSuffix(it.kind, []byte("_approval_response")):
		p.result(&it)
	case bytes.HasSuffix(it.kind, []byte("_call")):
		p.call(&it)
	case bytes.HasPrefix(it.kind, []byte("input_")): // content without a message around it
		p.T.Cut(it.at)
		p.T.Add(message.Part{Kind: message.Other, Value: p.Body[it.place.From:it.place.To]})
		p.own(&it, message.User)
	default: // reasoning, and what the provider keeps for itself
		p.T.Cut(it.at)
	}
	return nil
}

func (p *reader) itemMember(w *jsonwalk.Walker, name []byte, it *item) (err error) {
	switch string(name) {
	case "type":
		it.kind, err = w.Bytes()
	case "role":
		it.role, err = w.Bytes()
	case "id":
		it.id, err = w.Bytes()
	case "call_id":
		it.callID, err = w.Bytes()
	case "name":
		it.name, err = w.Bytes()
	case "arguments", "input", "action", "actions", "operation", "queries", "code":
		it.args, err = w.Raw()
	case "error":
		if w.Kind() != 'n' {
			it.fault, err = w.Raw()
		}
	case "status":
		var status []byte
		status, err = w.Bytes()
		it.pending = string(status) == "in_progress"
	case "content":
		it.content.From = w.Offset()
		err = p.Content(w)
		it.content.To = w.Offset()
	case "result", "output", "outputs", "results", "tools":
		it.answered = it.answered || w.Kind() != 'n'
		err = p.output(w, string(name), it)
	}
	return err
}

// output reads what a call brought.
func (p *reader) output(w *jsonwalk.Walker, name string, it *item) error {
	if name == "result" { // an image
		return p.Other(w)
	}
	from := w.Offset()
	err := p.Content(w)
	if name == "output" {
		it.output = splice.Place{From: from, To: w.Offset()}
	}
	return err
}

// own makes the parts of an item a message of their own.
func (p *reader) own(it *item, role message.Role) {
	if it.at > 0 {
		p.T.EndBefore(it.at, message.Assistant)
	}
	p.T.End(role)
}

func (p *reader) message(it *item) {
	if role := openai.Role(it.role); role != message.Assistant {
		p.own(it, role)
	}
}

func (p *reader) result(it *item) {
	p.T.Wrap(it.at, message.Part{ID: it.callID, Pending: it.pending, Failed: it.fault != nil})
	p.own(it, message.Tool)
}

// reference adds the item that a reference stands for to the model's turn: a known call,
// or else the id, because another id stands for another item. Reasoning has no part.
func (p *reader) reference(it *item) {
	p.refers = true
	p.T.Cut(it.at)
	if bytes.HasPrefix(it.id, []byte("rs_")) {
		return
	}
	if call, known := p.known[string(it.id)]; known {
		p.T.Add(message.Part{Kind: message.Call, Known: &call, Provided: call.Provided})
		return
	}
	if !bytes.HasPrefix(it.id, []byte("msg_")) {
		p.Prompt.References = append(p.Prompt.References, string(it.id))
	}
	p.T.Add(message.Part{Kind: message.Field, Name: []byte("item_reference"), Value: splice.Quote(string(it.id))})
}

// call adds a call to the model's turn. The provider's own tools are named by the type
// of the item, which has their results, too.
func (p *reader) call(it *item) {
	p.inline, p.called = true, it.id
	call := message.Part{Kind: message.Call, ID: it.callID, Name: it.name, Value: it.args}
	if !it.isClients() {
		call.Provided = true
		if len(call.ID) == 0 {
			call.ID = it.id
		}
		if len(call.Name) == 0 {
			call.Name = bytes.TrimSuffix(it.kind, []byte("_call"))
		}
	}
	if !it.answered && it.fault == nil {
		p.T.Cut(it.at)
		p.T.Add(call)
		return
	}
	if it.fault != nil && !it.answered {
		p.T.Add(message.Part{Kind: message.Text, Value: it.fault})
	}
	p.T.Wrap(it.at, message.Part{ID: call.ID, Failed: it.fault != nil})
	p.T.Insert(it.at, call)
}

// isClients reports whether an item is a call that the client answers, in the same
// history.
func (it *item) isClients() bool {
	return string(it.kind) == "function_call" || string(it.kind) == "custom_tool_call"
}

// isAnswer reports whether an item is the client's answer to such a call.
func (it *item) isAnswer() bool {
	return string(it.kind) == "function_call_output" || string(it.kind) == "custom_tool_call_output"
}

// isReference reports whether an item refers to one that the provider keeps. If it has no
// type, it has only an id.
func (it *item) isReference() bool {
	return string(it.kind) == "item_reference" || len(it.kind) == 0 && len(it.id) > 0 && len(it.role) == 0
}

// item adds an item to the located form.
func (l *located) item(it *item) {
	switch role := openai.Role(it.role); {
	case it.isAnswer():
		l.Newest = it.output
	case bytes.HasSuffix(it.kind, []byte("_call_output")):
		l.Newest = splice.Place{} // its output has a form of its own
	case len(it.role) > 0 && role == message.User:
		l.Newest = it.content
	case len(it.role) > 0 && role == message.System && !l.begun:
		l.Leading = it.content
	}
	l.begun = true
	// A compaction stands for all items before it, which only the provider can read.
	l.partial = l.partial || it.isReference() || bytes.HasPrefix(it.kind, []byte("compaction"))
	l.items = append(l.items, repair.Item{
		Kind: string(it.kind), ID: string(it.callID), Call: it.isClients(), Result: it.isAnswer(), Answer: l.Raw(it.output), Raw: l.Raw(it.place),
	})
}
