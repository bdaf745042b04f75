package responses

import (
	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// reader reads a body into a prompt and its transcript and, for hints and repairs, into
// its located form.
type reader struct {
	openai.Reader
	who   openai.Who
	store bool // the provider keeps the answer
	known map[string]provider.ToolCall
	// inline says that there are calls in the input, refers that it refers to items.
	inline, refers bool
	called         []byte   // the id of the newest call's item
	at             *located // nil to read a prompt
}

// located is the located form of a body.
type located struct {
	tree.Tree
	items []repair.Item
	// kept says that the provider keeps the history, partial that items stand for
	// others, and begun that there was an item.
	kept, partial, begun bool
}

// state codes what is known between two items. Of a request that refers to others, the calls that
// these are may be known to the next one.
func (p *reader) state(c *offsets.Coder) {
	if p.refers || p.known != nil {
		c.Fail()
	}
	p.T.Code(c)
	c.Flags(&p.inline)
	c.Bytes(&p.called)
}

func (p *reader) member(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "model":
		p.Prompt.Model, err = w.String()
	case "stream":
		p.Prompt.Stream, err = w.Bool()
	case "background":
		p.Prompt.Background, err = w.Bool()
	case "store":
		p.store = w.Kind() != 'f'
	case "previous_response_id", "conversation":
		err = p.history(w, string(name))
	case "instructions":
		err = p.instructions(w)
	case "prompt":
		err = p.stored(w)
	case "text":
		err = w.Members(func(name []byte) (err error) {
			if string(name) == "format" {
				p.Prompt.Structured, err = openai.Structured(w)
			}
			return err
		})
	case "tools":
		err = p.tools(w)
	case "input":
		err = p.input(w)
	default:
		err = p.who.Member(w, name)
	}
	return err
}

// history reads where the provider keeps the history: behind an answer, or in a
// conversation, which is named by its id or by an object with its id.
func (p *reader) history(w *jsonwalk.Walker, name string) (err error) {
	if p.at != nil {
		p.at.kept = p.at.kept || w.Kind() != 'n'
	}
	var id string
	if w.Kind() == '{' && name == "conversation" {
		err = w.Object(func(name []byte) (err error) {
			if string(name) == "id" {
				id, err = w.String()
			}
			return err
		})
	} else {
		id, err = w.String()
	}
	if name == "conversation" {
		p.Prompt.Conversation, p.Prompt.Session = id, id
	} else {
		p.Prompt.Previous = id
	}
	p.Prompt.Delta = p.Prompt.Delta || id != ""
	return err
}

// instructions reads the system prompt. Nothing else is in the open message then: the
// input ends each of its own.
func (p *reader) instructions(w *jsonwalk.Walker) (err error) {
	p.System, err = splice.Around(w, func() error { return p.Content(w) })
	p.T.EndSystem()
	return err
}

// stored reads the reference to a prompt that the provider has.
func (p *reader) stored(w *jsonwalk.Walker) error {
	if w.Kind() != '{' {
		return w.Skip()
	}
	raw, err := w.Raw()
	p.Prompt.Stored = true
	// The value is put in a list, because the id of a template says which one it is; the
	// ids of other objects are left out of digests.
	p.T.Add(message.Part{Kind: message.Field, Name: []byte("prompt"), Value: splice.Array(raw)})
	p.T.EndSystem()
	return err
}

// tools reads the names of tools, also of those in namespaces.
func (p *reader) tools(w *jsonwalk.Walker) error {
	return w.Elements(func() error {
		return w.Members(func(name []byte) error {
			switch string(name) {
			case "name":
				tool, err := w.Bytes()
				p.T.Offer(tool)
				return err
			case "tools":
				return p.tools(w)
			case "type":
				kind, err := w.Bytes()
				if string(kind) == "tool_search" {
					p.T.OfferUnnamed()
				}
				return err
			}
			return nil
		})
	})
}

func (p *reader) input(w *jsonwalk.Walker) (err error) {
	var place splice.Place
	switch w.Kind() {
	case '"':
		if place, err = splice.Around(w, func() error { return p.Content(w) }); err != nil {
			return err
		}
		p.T.End(message.User)
	case '[':
		err = p.ReadList(w, func() error { return p.item(w) })
		if err == nil {
			p.endTurn()
		}
		return err
	}
	if p.at != nil {
		p.at.Newest = place
	}
	return err
}

// endTurn ends the model's turn, if one is open.
func (p *reader) endTurn() {
	if p.T.Len() > 0 {
		p.T.End(message.Assistant)
	}
}
