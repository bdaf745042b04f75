package forward

import (
	"bytes"
	"net/http/httptrace"
	"sync/atomic"
)

// sending is the state of a request on its way to the upstream.
type sending struct {
	// reused is set if the request was sent on a reused connection; tries counts how often it
	// was sent.
	reused bool
	tries  int
	// body is the transport's reader of a body in memory; nil for other bodies.
	body *bytes.Reader
	// done counts two events after which the body can be dropped: the request was written,
	// and its answer began.
	done atomic.Int32
}

// connected notes which connection a request goes out on.
func (s *sending) connected(info httptrace.GotConnInfo) {
	s.reused = info.Reused
	s.tries++
}

// wrote notes that a request was written.
func (c *call) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		c.over()
	}
}

// over drops the body when it is no longer needed, because an answer may take minutes. The
// body of a request that was sent several times stays: two attempts may be in flight.
func (c *call) over() {
	if c.done.Add(1) != 2 || c.body == nil || c.tries != 1 {
		return
	}
	c.body.Reset(nil)
	c.Body = nil
	c.Observer.Sent()
}
