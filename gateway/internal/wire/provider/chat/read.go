package chat

import (
	"fmt"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// reader reads a body into a prompt and its transcript and, for hints and repairs,
// into a tree.
type reader struct {
	openai.Reader
	who openai.Who
}

func (p *reader) member(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "model":
		p.Prompt.Model, err = w.String()
	case "stream":
		p.Prompt.Stream, err = w.Bool()
	case "stream_options":
		err = w.Members(func(name []byte) (err error) {
			if string(name) == "include_usage" {
				p.Prompt.StreamUsage, err = w.Bool()
			}
			return err
		})
	case "response_format":
		p.Prompt.Structured, err = openai.Structured(w)
	case "tools", "functions":
		err = w.Elements(func() error { return p.tool(w) })
	case "messages":
		err = p.ReadList(w, func() error { return p.message(w) })
	default:
		err = p.who.Member(w, name)
	}
	return err
}

// tool reads the name of a function, which is wrapped in a tool or stands alone.
func (p *reader) tool(w *jsonwalk.Walker) error {
	return w.Members(func(name []byte) error {
		switch string(name) {
		case "function", "custom":
			return p.tool(w)
		case "name":
			tool, err := w.Bytes()
			p.T.Offer(tool)
			return err
		}
		return nil
	})
}

// head has the members of a message that matter, beside its content and calls.
type head struct {
	role, name, callID []byte
	content            splice.Place
	// sealed says that there are further members.
	sealed bool
}

func (p *reader) message(w *jsonwalk.Walker) error {
	var h head
	from := w.Offset()
	if err := w.Object(func(name []byte) error { return p.messageMember(w, name, &h) }); err != nil {
		return err
	}
	role := openai.Role(h.role)
	if role == message.Tool {
		p.T.Wrap(0, message.Part{ID: h.callID, Name: jsonwalk.AppendString(nil, h.name)})
	} else if len(h.name) > 0 {
		p.T.Add(message.Part{Kind: message.Field, Name: []byte("name"), Value: h.name})
	}
	p.T.End(role)
	if p.Tree != nil {
		p.locate(&h, tree.Message{Place: splice.Place{From: from, To: w.Offset()}, Content: h.content, Speaker: role, Sealed: h.sealed})
	}
	return nil
}

func (p *reader) messageMember(w *jsonwalk.Walker, name []byte, h *head) (err error) {
	switch string(name) {
	case "role":
		h.role, err = w.Bytes()
	case "tool_call_id":
		h.callID, err = w.Bytes()
	case "content":
		h.content.From = w.Offset()
		err = p.Content(w)
		h.content.To = w.Offset()
	case "tool_calls":
		err = w.Elements(func() error { return p.call(w) })
	default:
		h.sealed = h.sealed || w.Kind() != 'n'
		err = p.further(w, name, h)
	}
	return err
}

// further reads a member that most messages do not have.
func (p *reader) further(w *jsonwalk.Walker, name []byte, h *head) (err error) {
	switch string(name) {
	case "name":
		if w.Kind() == '"' {
			h.name, err = w.Raw()
		}
	case "function_call":
		if w.Kind() == '{' {
			err = p.function(w, p.T.Add(message.Part{Kind: message.Call}))
		}
	case "id", "cache_control", "reasoning", "reasoning_content", "reasoning_details", "thinking", "thinking_blocks",
		"reasoning_text", "reasoning_opaque", "extra_content", "provider_specific_fields": // thinking and its signatures
	default:
		if w.Kind() != 'n' { // null is the same as absent
			var raw []byte
			raw, err = w.Raw()
			p.T.Add(message.Part{Kind: message.Field, Name: name, Value: raw})
		}
	}
	return err
}

// call reads an element of the list of calls.
func (p *reader) call(w *jsonwalk.Walker) error {
	if w.Kind() != '{' {
		if p.Tree != nil {
			p.Tree.Fault = fmt.Errorf("repair Chat Completions body: a call at byte %d: %w", w.Offset(), jsonwalk.ErrKind)
		}
		return w.Skip()
	}
	from, at := w.Offset(), p.T.Add(message.Part{Kind: message.Call})
	var id []byte
	err := w.Object(func(name []byte) (err error) {
		switch string(name) {
		case "id":
			id, err = w.Bytes()
		case "function", "custom":
			err = p.function(w, at)
		}
		return err
	})
	p.T.At(at).ID = id
	if p.Tree != nil {
		p.Tree.Block(repair.Block{Kind: repair.Call, ID: string(id), Raw: p.Body[from:w.Offset()]})
	}
	return err
}

// function reads the name and the arguments of a call into the part at an index.
func (p *reader) function(w *jsonwalk.Walker, at int) error {
	return w.Members(func(name []byte) (err error) {
		switch string(name) {
		case "name":
			p.T.At(at).Name, err = w.Bytes()
		case "arguments", "input":
			p.T.At(at).Value, err = w.Raw()
		}
		return err
	})
}

// locate ends a message of the tree. A message of a tool is one result. Results in a
// message of the model become messages of tools.
func (p *reader) locate(h *head, m tree.Message) {
	blocks := p.Tree.Open
	switch {
	case string(h.role) == "tool":
		m.Role, m.Sealed = repair.User, false
		p.Tree.Open = []repair.Block{{Kind: repair.Result, ID: string(h.callID), Answer: p.Tree.Raw(h.content), Raw: p.Tree.Raw(m.Place)}}
	case m.Speaker == message.User:
		m.Role = repair.User
		for i := range blocks {
			if blocks[i].Kind == repair.Result {
				blocks[i].Kind = repair.Content
			}
		}
	case m.Speaker == message.Assistant:
		m.Role = repair.Assistant
		for i := range blocks {
			if b := &blocks[i]; b.Kind == repair.Result {
				b.Raw = toolMessage(b.ID, b.Answer)
			}
		}
	default:
		m.Role = repair.Other
	}
	p.Tree.End(m)
}
