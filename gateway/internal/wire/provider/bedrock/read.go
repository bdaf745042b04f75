package bedrock

import (
	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// reader reads a body of Converse into a prompt and its transcript and, for hints and
// repairs, into a tree.
type reader struct {
	provider.Reader
}

func (p *reader) member(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "system":
		p.System, err = splice.Around(w, func() error { return p.system(w) })
	case "messages":
		err = p.ReadList(w, func() error { return p.message(w) })
	case "toolConfig":
		err = w.Members(func(name []byte) error {
			if string(name) != "tools" {
				return nil
			}
			return w.Elements(func() error { return p.OfferNamed(w, "toolSpec", "systemTool") })
		})
	case "outputConfig":
		p.Prompt.Structured = w.Kind() == '{'
	case "requestMetadata":
		err = p.metadata(w)
	}
	return err
}

// metadata reads the session and the user, by the names that other formats have for them.
func (p *reader) metadata(w *jsonwalk.Walker) error {
	return w.Members(func(name []byte) (err error) {
		switch string(name) {
		case "session_id":
			p.Prompt.Session, err = w.String()
		case "user_id":
			p.Prompt.User, err = w.String()
		}
		return err
	})
}

func (p *reader) system(w *jsonwalk.Walker) error {
	located := p.Tree
	p.Tree = nil // the instructions have no blocks of the history
	err := w.Elements(func() error { return p.element(w) })
	p.Tree = located
	p.T.EndSystem()
	return err
}

func (p *reader) message(w *jsonwalk.Walker) error {
	m, err := p.ReadMessage(w, tree.Message{Role: repair.User}, rolesOf, func() error {
		return w.Elements(func() error { return p.element(w) })
	})
	if err == nil && p.Tree != nil {
		p.Tree.End(m)
	}
	return err
}

func rolesOf(word []byte) (message.Role, repair.Role) {
	if string(word) == "assistant" {
		return message.Assistant, repair.Assistant
	}
	return message.User, repair.User
}

// element reads an element of a list of content.
func (p *reader) element(w *jsonwalk.Walker) (err error) {
	b := repair.Block{Kind: repair.Content}
	var id []byte
	from := w.Offset()
	if w.Kind() == '{' {
		id, err = p.block(w, &b)
	} else {
		var raw []byte
		raw, err = w.Raw()
		p.T.Add(message.Part{Kind: message.Other, Value: raw})
	}
	if p.Tree != nil {
		b.ID, b.Raw = string(id), p.Body[from:w.Offset()]
		p.Tree.Block(b)
	}
	return err
}

// block reads a block of a message, and returns the id of its call. The name of its member
// is its kind.
func (p *reader) block(w *jsonwalk.Walker, b *repair.Block) (id []byte, err error) {
	from, at := w.Offset(), p.T.Add(message.Part{Kind: message.Other})
	dropped := false
	err = w.Object(func(name []byte) (err error) {
		switch string(name) {
		case "text":
			if w.Kind() == '"' {
				*p.T.At(at) = message.Part{Kind: message.Text}
				p.T.At(at).Value, err = w.Raw()
				b.Kind, b.Blank = repair.Text, p.Tree != nil && repair.Blank(p.T.At(at).Value)
			}
		case "toolUse":
			p.T.At(at).Kind, b.Kind = message.Call, repair.Call
			err = p.call(w, at)
		case "toolResult":
			p.T.At(at).Kind, b.Kind = message.Result, repair.Result
			err = p.result(w, at, b)
		case "reasoningContent", "cachePoint":
			dropped = true
		}
		return err
	})
	id = p.T.At(at).ID
	switch {
	case dropped:
		p.T.Cut(at)
	case p.T.At(at).Kind == message.Other:
		p.T.At(at).Value = p.Body[from:w.Offset()]
	}
	return id, err
}

func (p *reader) call(w *jsonwalk.Walker, at int) error {
	return w.Members(func(name []byte) (err error) {
		switch string(name) {
		case "toolUseId":
			p.T.At(at).ID, err = w.Bytes()
		case "name":
			p.T.At(at).Name, err = w.Bytes()
		case "input":
			p.T.At(at).Value, err = w.Raw()
		}
		return err
	})
}

func (p *reader) result(w *jsonwalk.Walker, at int, b *repair.Block) error {
	return w.Members(func(name []byte) (err error) {
		switch string(name) {
		case "toolUseId":
			p.T.At(at).ID, err = w.Bytes()
		case "status":
			var status []byte
			status, err = w.Bytes()
			p.T.At(at).Failed, p.T.At(at).Fine = string(status) == "error", string(status) == "success"
		case "content":
			from := w.Offset()
			err = w.Elements(func() error { return p.answer(w) })
			b.Answer = p.Body[from:w.Offset()]
		}
		return err
	})
}

// answer reads a block of a result: a text, JSON, or media.
func (p *reader) answer(w *jsonwalk.Walker) error {
	from, part := w.Offset(), message.Part{Kind: message.Other, Inside: true}
	err := w.Members(func(name []byte) (err error) {
		if string(name) == "json" || string(name) == "text" && w.Kind() == '"' {
			part.Kind = message.Text
			part.Value, err = w.Raw()
		}
		return err
	})
	if part.Kind == message.Other {
		part.Value = p.Body[from:w.Offset()]
	}
	p.T.Add(part)
	return err
}
