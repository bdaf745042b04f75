package provider

import (
	"fmt"
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// Reader reads a body into a prompt and its transcript or, for hints and repairs, into a tree.
// The readers of the formats embed it.
type Reader struct {
	tree.Places
	Body   []byte
	T      *transcript.Transcript
	Prompt *Prompt
	Tree   *tree.Tree // nil to read a prompt
}

// NewReader returns a reader for Parse. Its transcript is empty, unless the body continues
// another one.
func NewReader(body []byte, o Options) Reader {
	r := Reader{Body: body, Prompt: &Prompt{}}
	if o.Continue != nil {
		r.T = o.Continue.Continue(o.Stop)
	} else {
		r.T = transcript.New(transcript.Options{Tail: o.Tail, Items: o.Items, Exchanges: o.Exchanges, Cache: o.Cache, Stop: o.Stop})
	}
	r.Progress, r.State = o.Prefixes.Open(body), r.T.Code
	return r
}

// NewLocator returns a reader that fills a tree, and whose transcript keeps nothing.
func NewLocator(body []byte, into *tree.Tree) Reader {
	into.Body = body
	return Reader{Body: body, T: transcript.Discard(), Prompt: &Prompt{}, Tree: into}
}

// ReadBody reads the body with a function that consumes its object.
func (r *Reader) ReadBody(object func(*jsonwalk.Walker) error) error {
	err := r.Read(r.Body, object)
	if r.Tree != nil {
		r.Tree.Places = r.Places
	}
	return err
}

// ReadMembers reads the body with a function that may consume the value of a member.
func (r *Reader) ReadMembers(member func(w *jsonwalk.Walker, name []byte) error) error {
	return r.ReadBody(func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error { return member(w, name) })
	})
}

// ReadMessage reads a message that has a role and content, and ends it. roles returns the roles for
// a word, in a transcript and in a repair, and content consumes the content.
func (r *Reader) ReadMessage(w *jsonwalk.Walker, m tree.Message, roles func(word []byte) (message.Role, repair.Role), content func() error) (tree.Message, error) {
	m.Place.From = w.Offset()
	err := w.Object(func(name []byte) (err error) {
		switch string(name) {
		case "role":
			var word []byte
			word, err = w.Bytes()
			m.Speaker, m.Role = roles(word)
		case "content":
			m.Content, err = splice.Around(w, content)
		default:
			m.Sealed = true
		}
		return err
	})
	m.Place.To = w.Offset()
	if err == nil {
		r.T.End(m.Speaker)
	}
	return m, err
}

// OfferNamed reads the name of a tool, which may stand within one of some members.
func (r *Reader) OfferNamed(w *jsonwalk.Walker, within ...string) error {
	return w.Members(func(name []byte) error {
		switch {
		case string(name) == "name":
			tool, err := w.Bytes()
			r.T.Offer(tool)
			return err
		case slices.Contains(within, string(name)):
			return r.OfferNamed(w, within...)
		}
		return nil
	})
}

// Parsed returns the prompt of a body that was read with an error or without: nil if it has no
// messages. name is that of the format.
func (r *Reader) Parsed(name string, err error) (*Prompt, error) {
	if err != nil {
		return nil, fmt.Errorf("read %s body: %w", name, err)
	}
	p := r.Prompt
	if r.T.Messages() == 0 && !p.Stored {
		return nil, nil
	}
	if r.Progress != nil {
		p.Size = r.Progress.Close()
	}
	p.Transcript, p.Tail = r.T, r.T.Tail()
	if !p.Delta {
		p.Opening = r.T.Opening()
	}
	return p, nil
}
