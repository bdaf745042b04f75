package forward

import (
	"bytes"
	"net/http/httptrace"
	"sync/atomic"
)

// sending is the way of a request to its upstream.
type sending struct {
	// reused says that the request went out on a connection that had carried others, and
	// tries how often it went out.
	reused bool
	tries  int
	// body is what the transport reads of a body in memory; nil for another body.
	body *bytes.Reader
	// done counts what has to be over before the body is dropped: the request was written,
	// and its answer has begun.
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

// over drops the body once it is no longer needed, because an answer may take minutes. The
// body of a request that went out several times stays, since two of them may be on their
// way.
func (c *call) over() {
	if c.done.Add(1) != 2 || c.body == nil || c.tries != 1 {
		return
	}
	c.body.Reset(nil)
	c.Body = nil
	c.Observer.Sent()
}
