package ollama

import (
	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// reader reads a body into a prompt and its transcript and, for hints and repairs, into
// its located form.
type reader struct {
	openai.Reader
	at *located // nil to read a prompt

	// text and images are a prompt without a history.
	text, images []byte
	// called are the tools that the message before the results calls, and next is that of
	// the next result.
	called [][]byte
	next   int
	// calls are the tools that the open message calls.
	calls [][]byte
}

// state codes what is known between two messages.
func (p *reader) state(c *offsets.Coder) {
	p.T.Code(c)
	offsets.List(c, &p.called, c.Bytes)
	c.Int(&p.next)
	offsets.List(c, &p.calls, c.Bytes)
}

func (p *reader) read() error {
	err := p.ReadMembers(p.member)
	if err == nil && !p.List.Found() && len(p.text) > len(`""`) {
		p.T.Add(message.Part{Kind: message.Text, Value: p.text})
		err = p.media(p.images)
		p.T.End(message.User)
	}
	return err
}

func (p *reader) member(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "model":
		p.Prompt.Model, err = w.String()
	case "stream":
		p.Prompt.Stream = w.Kind() != 'f'
	case "format":
		p.Prompt.Structured, err = structured(w)
	case "tools":
		err = w.Elements(func() error { return p.OfferNamed(w, "function") })
	case "messages":
		err = p.ReadList(w, func() error { return p.message(w) })
	case "system":
		p.System, err = splice.Around(w, func() error { return p.system(w) })
	case "prompt":
		err = p.ask(w)
	case "images":
		p.images, err = w.Raw()
	}
	return err
}

// structured reports whether an answer must have a form: "json", or a schema.
func structured(w *jsonwalk.Walker) (bool, error) {
	kind := w.Kind()
	raw, err := w.Raw()
	return kind == '{' || kind == '"' && len(raw) > len(`""`), err
}

// system reads the instructions beside a prompt.
func (p *reader) system(w *jsonwalk.Walker) error {
	if w.Kind() != '"' {
		return w.Skip()
	}
	raw, err := w.Raw()
	p.T.Add(message.Part{Kind: message.Text, Value: raw})
	p.T.EndSystem()
	return err
}

// ask reads a prompt without a history.
func (p *reader) ask(w *jsonwalk.Walker) (err error) {
	if w.Kind() != '"' {
		return w.Skip()
	}
	at := splice.Place{From: w.Offset()}
	p.text, err = w.Raw()
	at.To = w.Offset()
	if p.at != nil {
		p.at.asked = at
	}
	return err
}

// media adds a list of pictures.
func (p *reader) media(list []byte) error {
	if len(list) == 0 || list[0] != '[' {
		return nil
	}
	return jsonwalk.Text(list, func(w *jsonwalk.Walker) error {
		return w.Array(func() error {
			raw, err := w.Raw()
			p.T.Add(message.Part{Kind: message.Other, Value: raw})
			return err
		})
	})
}

// head has the members of a message that matter, beside its content and calls.
type head struct {
	role, tool, callID, images []byte
	content                    splice.Place
	sealed                     bool // there are further members
}

func (p *reader) message(w *jsonwalk.Walker) error {
	var h head
	from := w.Offset()
	if err := w.Object(func(name []byte) error { return p.messageMember(w, name, &h) }); err != nil {
		return err
	}
	if err := p.media(h.images); err != nil {
		return err
	}
	role := openai.Role(h.role)
	switch role {
	case message.Tool:
		p.T.Wrap(0, message.Part{ID: h.callID, Name: p.answered(&h)})
	default:
		p.called, p.calls, p.next = p.calls, p.called[:0], 0
	}
	p.T.End(role)
	if p.at != nil {
		p.locate(&h, tree.Message{Place: splice.Place{From: from, To: w.Offset()}, Content: h.content, Speaker: role, Sealed: h.sealed})
	}
	return nil
}

// answered returns the tool of a result. Results that say nothing of their calls have the
// order of those.
func (p *reader) answered(h *head) []byte {
	tool := h.tool
	if len(tool) == 0 && len(h.callID) == 0 && p.next < len(p.called) {
		tool = p.called[p.next]
	}
	p.next++
	return tool
}

func (p *reader) messageMember(w *jsonwalk.Walker, name []byte, h *head) (err error) {
	switch string(name) {
	case "role":
		h.role, err = w.Bytes()
	case "tool_name", "name":
		h.tool, err = w.Bytes()
	case "tool_call_id":
		h.callID, err = w.Bytes()
	case "content":
		h.content.From = w.Offset()
		err = p.Content(w)
		h.content.To = w.Offset()
	case "images":
		h.images, err = w.Raw()
		h.sealed = true
	case "tool_calls":
		err = w.Elements(func() error { return p.call(w) })
	default: // such as thinking
		h.sealed = h.sealed || w.Kind() != 'n'
	}
	return err
}

// call reads an element of the list of calls.
func (p *reader) call(w *jsonwalk.Walker) error {
	if w.Kind() != '{' {
		_, _, err := p.Call(w, "Ollama")
		return err
	}
	id, tool, err := p.Call(w, "Ollama")
	p.calls = append(p.calls, tool)
	if p.at != nil {
		p.at.tools[string(id)] = string(tool)
		p.at.unnamed = p.at.unnamed || len(id) == 0
	}
	return err
}

// locate ends a message of the tree. A message of a tool is one result.
func (p *reader) locate(h *head, m tree.Message) {
	switch m.Speaker {
	case message.Tool:
		m.Role, m.Sealed = repair.User, false
		p.at.unnamed = p.at.unnamed || len(h.callID) == 0
		p.at.Open = []repair.Block{{Kind: repair.Result, ID: string(h.callID), Answer: p.at.Raw(h.content), Raw: p.at.Raw(m.Place)}}
	case message.User:
		m.Role = repair.User
	case message.Assistant:
		m.Role = repair.Assistant
	default:
		m.Role = repair.Other
	}
	for i := range p.at.Open { // conversions from other formats may leave results in content
		if b := &p.at.Open[i]; b.Kind == repair.Result && m.Speaker != message.Tool {
			b.Kind = repair.Content
		}
	}
	p.at.End(m)
}
