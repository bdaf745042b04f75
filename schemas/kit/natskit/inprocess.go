package natskit

import (
	"sync"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
)

// Request is one request to a responder, over NATS or in the process.
type Request struct {
	// Data is empty if a sender in this process passes the message itself.
	Data []byte
	// Header has the headers of the message; nil for none.
	Header  nats.Header
	message proto.Message
	respond func(content) error
	// waits is set if the sender's goroutine waits for the answer.
	waits bool
}

// content is the content of a request or an answer: a message within the process, or bytes.
type content struct {
	data    []byte
	message proto.Message
}

// message constrains P to *M, a protobuf message.
type message[M any] interface {
	*M
	proto.Message
}

// Message returns the message of a request. It may be the sender's own, so it must not be
// changed.
func Message[M any, P message[M]](r Request) (P, error) {
	return decode[M, P](content{r.Data, r.message})
}

func decode[M any, P message[M]](c content) (P, error) {
	if m, ok := c.message.(P); ok {
		return m, nil
	}
	m := P(new(M))
	return m, proto.Unmarshal(c.data, m)
}

// bytes returns the content as bytes.
func (c content) bytes() ([]byte, error) {
	if c.message == nil {
		return c.data, nil
	}
	return proto.Marshal(c.message)
}

// Waits reports whether the responder may work in the calling goroutine, because the sender
// waits in it.
func (r Request) Waits() bool { return r.waits }

// Expected reports whether the sender waits for an answer.
func (r Request) Expected() bool { return r.respond != nil }

// Respond answers the request: once, unless the sender takes several answers.
func (r Request) Respond(answer []byte) error {
	if r.respond == nil {
		return nil
	}
	return r.respond(content{data: answer})
}

// Answer is Respond with a message, which must not be changed afterwards.
func (r Request) Answer(m proto.Message) error {
	if r.respond == nil {
		return nil
	}
	return r.respond(content{message: m})
}

// InProcess passes requests to responders of the same process directly, which saves a dozen
// goroutine switches. The messages are the same as over NATS. The nil InProcess has no
// responders.
type InProcess struct {
	mu         sync.Mutex
	responders map[string]*responder
}

type responder struct {
	handle func(Request)
	calls  sync.WaitGroup
}

// NewInProcess returns one without responders.
func NewInProcess() *InProcess { return &InProcess{responders: map[string]*responder{}} }

// Serve registers handle for a subject's requests in this process until stop is called, which
// waits for running calls. handle must not block unless the sender waits.
func (p *InProcess) Serve(subject string, handle func(Request)) (stop func()) {
	if p == nil {
		return func() {}
	}
	r := &responder{handle: handle}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.responders[subject] = r
	return func() {
		p.mu.Lock()
		if p.responders[subject] == r {
			delete(p.responders, subject)
		}
		p.mu.Unlock()
		r.calls.Wait()
	}
}

// serves reports whether there is a responder for a subject.
func (p *InProcess) serves(subject string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.responders[subject] != nil
}

// pass hands a request to the subject's responder; false if there is none.
func (p *InProcess) pass(subject string, r Request) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	to, ok := p.responders[subject]
	if ok {
		to.calls.Add(1)
	}
	p.mu.Unlock()
	if !ok {
		return false
	}
	defer to.calls.Done()
	to.handle(r)
	return true
}
