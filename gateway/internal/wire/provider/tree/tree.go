// Package tree locates the messages of a request and their blocks in the body. A wire format
// fills a Tree during the walk that also parses the body. Hints and repairs change the body at
// these places and leave every other byte as it was.
//
// It knows places in JSON and the model of package repair. It knows no wire format, no
// policy and no HTTP.
package tree

import (
	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/prefixcache"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// Places are found by every walk over a request: the whole request, the instructions beside the
// messages, and the list of messages. The place of something that is missing is zero.
type Places struct {
	Object, System, List splice.Place
	// Progress is how far the list has been read, and State codes what the reader knows behind one
	// of its messages.
	Progress *prefixcache.Progress
	State    func(*offsets.Coder)
}

// Read reads a body with a function that consumes its object.
func (p *Places) Read(body []byte, object func(*jsonwalk.Walker) error) error {
	return jsonwalk.Text(body, func(w *jsonwalk.Walker) (err error) {
		p.Object, err = splice.Around(w, func() error { return object(w) })
		return err
	})
}

// ReadList reads the list of messages. A value of another type is skipped.
func (p *Places) ReadList(w *jsonwalk.Walker, message func() error) (err error) {
	if w.Kind() == '[' {
		p.List, err = splice.Around(w, func() error { return p.readMessages(w, message) })
	}
	return err
}

// readMessages reads the messages that were not read before.
func (p *Places) readMessages(w *jsonwalk.Walker, message func() error) error {
	if p.Progress == nil {
		return w.Array(message)
	}
	return w.ArrayAfter(p.Progress.Resume(w.Offset(), p.State), func() error {
		err := message()
		if err == nil {
			p.Progress.Checkpoint(w.Offset(), w.Last(), p.State)
		}
		return err
	})
}

// Tree is a located request.
type Tree struct {
	Places
	Body []byte
	// Leading is the place of the first message's content, if that is a system message.
	Leading splice.Place
	// Newest is the place of the content of the newest message of a user or tool.
	Newest splice.Place
	// Open are the blocks of the message that is being read.
	Open []repair.Block
	// Messages are those that were read, in order.
	Messages []repair.Message
	// Fault is why the messages can't be repaired; nil if they can.
	Fault error

	spans []span
}

// span is the place of a message and that of its content.
type span struct{ message, content splice.Place }

// Message is what a wire format reports about a message at its end.
type Message struct {
	Place, Content splice.Place
	// Speaker is the role that the format gives the message, Role the one that repair
	// gives it.
	Speaker message.Role
	Role    repair.Role
	// Sealed is repair.Message.Sealed.
	Sealed bool
}

// Raw returns the text at a place of the body.
func (t *Tree) Raw(p splice.Place) []byte { return t.Body[p.From:p.To] }

// Block adds a block to the open message.
func (t *Tree) Block(b repair.Block) { t.Open = append(t.Open, b) }

// Text adds a string that is the whole content of the open message.
func (t *Tree) Text(raw []byte) {
	t.Block(repair.Block{Kind: repair.Text, Bare: true, Blank: repair.Blank(raw), Raw: raw})
}

// End ends the open message.
func (t *Tree) End(m Message) {
	switch {
	case m.Speaker == message.User, m.Speaker == message.Tool:
		t.Newest = m.Content
	case m.Speaker == message.System && len(t.Messages) == 0:
		t.Leading = m.Content
	}
	t.Messages = append(t.Messages, repair.Message{Role: m.Role, Sealed: m.Sealed, Blocks: t.Open})
	t.spans = append(t.spans, span{m.Place, m.Content})
	t.Open = nil
}
