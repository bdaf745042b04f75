package anthropic

import (
	"bytes"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// content reads a string or a list of blocks. inside says that it is the content of a
// result.
func (p *reader) content(w *jsonwalk.Walker, inside bool) error {
	switch w.Kind() {
	case '"':
		raw, err := w.Raw()
		p.T.Add(message.Part{Kind: message.Text, Inside: inside, Value: raw})
		if p.Tree != nil && !inside {
			p.Tree.Text(raw)
		}
		return err
	case '[':
		return w.Array(func() error { return p.element(w, inside) })
	case 'n':
		return w.Skip()
	default:
		return p.other(w, inside)
	}
}

// other reads content that is neither a text nor a block.
func (p *reader) other(w *jsonwalk.Walker, inside bool) error {
	raw, err := w.Raw()
	p.T.Add(message.Part{Kind: message.Other, Inside: inside, Value: raw})
	return err
}

// element reads an element of a list of content: a block, or what stands in its place.
func (p *reader) element(w *jsonwalk.Walker, inside bool) (err error) {
	var b block
	from := w.Offset()
	if w.Kind() == '{' {
		err = p.block(w, &b, inside)
	} else {
		err = p.other(w, inside)
	}
	if p.Tree != nil && !inside {
		p.Tree.Block(p.located(&b, p.Body[from:w.Offset()]))
	}
	return err
}

// block has the members of a block. Its type is known only at its end.
type block struct {
	kind, text, id, callID, name, input []byte
	answer                              splice.Place // of the content of a result
	failed, marked                      bool         // is_error, and whether it is there
}

// block reads a block. Its own part stands before those of its content, though the
// content may come first in the body.
func (p *reader) block(w *jsonwalk.Walker, b *block, inside bool) error {
	from := w.Offset()
	at := p.T.Add(message.Part{Inside: inside})
	if err := w.Object(func(name []byte) error { return p.blockMember(w, name, b, inside) }); err != nil {
		return err
	}
	if string(b.kind) == "tool_addition" {
		p.T.OfferUnnamed()
	}
	part := p.T.At(at)
	switch {
	case string(b.kind) == "text" && len(b.text) > 0 && b.text[0] == '"':
		part.Kind, part.Value = message.Text, b.text
	case string(b.kind) == "thinking", string(b.kind) == "redacted_thinking":
		p.T.Cut(at)
		return nil
	case bytes.HasSuffix(b.kind, []byte("tool_use")) && !inside:
		*part = message.Part{Kind: message.Call, ID: b.id, Name: b.name, Value: b.input, Provided: string(b.kind) != "tool_use"}
	case bytes.HasSuffix(b.kind, []byte("tool_result")) && !inside:
		*part = message.Part{Kind: message.Result, ID: b.callID, Failed: b.failed, Fine: b.marked && !b.failed}
		return nil
	default:
		part.Kind, part.Value = message.Other, p.Body[from:w.Offset()]
	}
	p.T.Cut(at + 1)
	return nil
}

func (p *reader) blockMember(w *jsonwalk.Walker, name []byte, b *block, inside bool) (err error) {
	switch string(name) {
	case "type":
		b.kind, err = w.Bytes()
	case "text":
		b.text, err = w.Raw()
	case "id":
		b.id, err = w.Bytes()
	case "tool_use_id":
		b.callID, err = w.Bytes()
	case "name":
		b.name, err = w.Bytes()
	case "input":
		b.input, err = w.Raw()
	case "is_error":
		b.marked = w.Kind() != 'n'
		b.failed, err = w.Bool()
	case "caller":
		if !inside {
			err = p.caller(w)
		}
	case "content":
		if !inside { // a block in a result counts as a whole
			b.answer.From = w.Offset()
			err = p.content(w, true)
			b.answer.To = w.Offset()
		}
	}
	return err
}

// caller reads who made a call: the model, or code of the provider.
func (p *reader) caller(w *jsonwalk.Walker) error {
	return w.Members(func(name []byte) error {
		if string(name) != "type" {
			return nil
		}
		kind, err := w.Bytes()
		p.called = p.called || string(kind) != "direct"
		return err
	})
}

// located returns a block as repair sees it.
func (p *reader) located(b *block, raw []byte) repair.Block {
	out := repair.Block{Kind: repair.Content, Raw: raw}
	switch string(b.kind) {
	case "text":
		out.Kind, out.Blank = repair.Text, repair.Blank(b.text)
	case "tool_use":
		out.Kind, out.ID = repair.Call, string(b.id)
	case "tool_result":
		out.Kind, out.ID, out.Answer = repair.Result, string(b.callID), p.Tree.Raw(b.answer)
	}
	return out
}
