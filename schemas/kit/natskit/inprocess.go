package natskit

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// Request is one request to a responder, over NATS or in the process.
type Request struct {
	Data []byte
	// Header has the headers of the message; nil for none.
	Header  nats.Header
	respond func([]byte) error
}

// Expected reports whether the sender waits for an answer.
func (r Request) Expected() bool { return r.respond != nil }

// Respond answers the request: once, unless the sender takes several answers.
func (r Request) Respond(answer []byte) error {
	if r.respond == nil {
		return nil
	}
	return r.respond(answer)
}

// InProcess takes requests to responders of the same process past the NATS server,
// which saves a dozen switches between goroutines. The messages are the same either
// way. The nil InProcess has no responders.
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

// Serve has a subject's requests in this process answered by handle, which must
// not block, until stop is called; stop waits for the calls that have begun.
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
