package chat

import (
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
		err = w.Elements(func() error { return p.OfferNamed(w, "function", "custom") })
	case "messages":
		err = p.ReadList(w, func() error { return p.message(w) })
	default:
		err = p.who.Member(w, name)
	}
	return err
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
		err = w.Elements(func() error {
			_, _, err := p.Call(w, "Chat Completions")
			return err
		})
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
			err = p.Function(w, p.T.Add(message.Part{Kind: message.Call}))
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
