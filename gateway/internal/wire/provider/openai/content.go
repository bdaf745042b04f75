package openai

import (
	"fmt"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// Reader reads the content of messages and results into a transcript and, for repairs,
// into a tree.
type Reader struct{ provider.Reader }

// Content reads a string, or a list of parts.
func (r *Reader) Content(w *jsonwalk.Walker) error {
	switch w.Kind() {
	case '"':
		raw, err := w.Raw()
		r.T.Add(message.Part{Kind: message.Text, Value: raw})
		if r.Tree != nil {
			r.Tree.Text(raw)
		}
		return err
	case '[':
		return w.Array(func() error { return r.element(w) })
	default:
		return r.Other(w)
	}
}

// Other reads content that is neither a text nor a list. Null is no content.
func (r *Reader) Other(w *jsonwalk.Walker) error {
	if w.Kind() == 'n' {
		return w.Skip()
	}
	raw, err := w.Raw()
	r.T.Add(message.Part{Kind: message.Other, Value: raw})
	return err
}

// element reads an element of a content list: a part, or content without one.
func (r *Reader) element(w *jsonwalk.Walker) (err error) {
	var p part
	from := w.Offset()
	if w.Kind() == '{' {
		err = r.part(w, &p)
	} else {
		inner := Reader{provider.Reader{Body: r.Body, T: r.T}}
		err = inner.Content(w)
	}
	if r.Tree != nil {
		r.Tree.Block(p.located(r.Body[from:w.Offset()]))
	}
	return err
}

// Call reads an element of the list of calls, and returns its id and the name of its tool. name is
// that of the format.
func (r *Reader) Call(w *jsonwalk.Walker, name string) (id, tool []byte, err error) {
	if w.Kind() != '{' {
		if r.Tree != nil {
			r.Tree.Fault = fmt.Errorf("repair %s body: a call at byte %d: %w", name, w.Offset(), jsonwalk.ErrKind)
		}
		return nil, nil, w.Skip()
	}
	from, at := w.Offset(), r.T.Add(message.Part{Kind: message.Call})
	err = w.Object(func(name []byte) (err error) {
		switch string(name) {
		case "id":
			id, err = w.Bytes()
		case "function", "custom":
			err = r.Function(w, at)
		}
		return err
	})
	r.T.At(at).ID = id
	if r.Tree != nil {
		r.Tree.Block(repair.Block{Kind: repair.Call, ID: string(id), Raw: r.Body[from:w.Offset()]})
	}
	return id, r.T.At(at).Name, err
}

// Function reads the name and the arguments of a call into the part at an index.
func (r *Reader) Function(w *jsonwalk.Walker, at int) error {
	return w.Members(func(name []byte) (err error) {
		switch string(name) {
		case "name":
			r.T.At(at).Name, err = w.Bytes()
		case "arguments", "input":
			r.T.At(at).Value, err = w.Raw()
		}
		return err
	})
}

// part has the members of a part that matter. Results are no parts of the format:
// conversions from other formats leave them there.
type part struct{ kind, text, id, answer []byte }

func (r *Reader) part(w *jsonwalk.Walker, p *part) error {
	from := w.Offset()
	err := w.Object(func(name []byte) (err error) {
		switch string(name) {
		case "type":
			p.kind, err = w.Bytes()
		case "text":
			p.text, err = w.Raw()
		case "tool_call_id", "tool_use_id":
			p.id, err = w.Bytes()
		case "content":
			p.answer, err = w.Raw()
		}
		return err
	})
	switch string(p.kind) {
	case "thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text":
		return err
	case "text", "input_text", "output_text":
		if len(p.text) > 0 && p.text[0] == '"' {
			r.T.Add(message.Part{Kind: message.Text, Value: p.text})
			return err
		}
	}
	r.T.Add(message.Part{Kind: message.Other, Value: r.Body[from:w.Offset()]})
	return err
}

// located returns a part as repair sees it.
func (p *part) located(raw []byte) repair.Block {
	b := repair.Block{Kind: repair.Content, Raw: raw}
	switch string(p.kind) {
	case "text":
		b.Kind, b.Blank = repair.Text, repair.Blank(p.text)
	case "tool_result":
		b.Kind, b.ID, b.Answer = repair.Result, string(p.id), p.answer
	}
	return b
}
