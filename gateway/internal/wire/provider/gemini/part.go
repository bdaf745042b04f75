package gemini

import (
	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// element reads one element of a content's parts: a part, or a string.
func (p *reader) element(w *jsonwalk.Walker) (err error) {
	b := repair.Block{Kind: repair.Content}
	from := w.Offset()
	if w.Kind() == '"' {
		err = p.text(w)
	} else {
		err = p.part(w, &b)
	}
	if p.at != nil {
		b.Raw = p.Body[from:w.Offset()]
		p.at.Block(b)
	}
	return err
}

// part reads a part, and says in a block whether it is a call or a response.
func (p *reader) part(w *jsonwalk.Walker, b *repair.Block) error {
	from, at := w.Offset(), p.T.Add(message.Part{Kind: message.Other})
	var thought bool
	var mark []byte
	err := object(w, func(name string) (err error) {
		switch name {
		case "text":
			*p.T.At(at) = message.Part{Kind: message.Text}
			p.T.At(at).Value, err = w.Raw()
		case "thought":
			thought, err = w.Bool()
		case "thoughtSignature":
			mark, err = w.Bytes()
		case "functionCall":
			p.T.At(at).Kind, b.Kind = message.Call, repair.Call
			err = p.function(w, at, b)
		case "functionResponse":
			p.T.At(at).Kind, b.Kind = message.Result, repair.Result
			err = p.function(w, at, b)
		}
		return err
	})
	switch part := p.T.At(at); {
	case thought:
		p.T.Cut(at)
	case part.Kind == message.Other:
		part.Value = p.Body[from:w.Offset()]
	default:
		part.Mark = mark
	}
	return err
}

// function reads a call or a response.
func (p *reader) function(w *jsonwalk.Walker, at int, b *repair.Block) error {
	var id, name []byte
	err := members(w, func(member string) (err error) {
		switch member {
		case "id":
			id, err = w.Bytes()
			p.T.At(at).ID = id
		case "name":
			name, err = w.Bytes()
			p.T.At(at).Name = name
		case "willContinue":
			if p.at != nil {
				p.at.continued = true
			}
			if b.Kind == repair.Result {
				p.T.At(at).Pending, err = w.Bool()
			}
		case "args":
			if b.Kind == repair.Call {
				p.T.At(at).Value, err = w.Raw()
			}
		default:
			if b.Kind == repair.Result {
				err = p.response(w, member, at)
			}
		}
		return err
	})
	if p.at != nil {
		b.ID = p.at.function(string(name), string(id))
	}
	return err
}

// response reads what a function returned: an object, and media beside it.
func (p *reader) response(w *jsonwalk.Walker, member string, at int) error {
	switch member {
	case "response":
		return p.answer(w, at)
	case "parts":
		return each(w, func() error {
			raw, err := w.Raw()
			p.T.Add(message.Part{Kind: message.Other, Inside: true, Value: raw})
			return err
		})
	default:
		return nil
	}
}

// answer reads the object that a function returned. If its only member is a text, as
// SDKs write it, the answer is that text. An error says that the call failed.
func (p *reader) answer(w *jsonwalk.Walker, at int) error {
	from, members := w.Offset(), 0
	var text []byte
	err := w.Members(func(name []byte) (err error) {
		members++
		switch string(name) {
		case "error":
			p.T.At(at).Failed = w.Kind() != 'n'
			fallthrough
		case "output", "result", "content":
			text, err = w.Raw()
		}
		return err
	})
	if err != nil {
		return err
	}
	if members != 1 || len(text) == 0 || text[0] != '"' {
		text = p.Body[from:w.Offset()]
	}
	p.T.Add(message.Part{Kind: message.Text, Inside: true, Value: text})
	return nil
}
