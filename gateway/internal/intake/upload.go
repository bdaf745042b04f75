package intake

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// IdleTime is how long a client may send nothing in the middle of its body. It limits
// no body that goes on.
const IdleTime = time.Minute

// Upload is a request's body as it comes in. A client that stops sending does not
// hold a connection and memory for ever, and can be told from an upstream that fails.
type Upload struct {
	io.ReadCloser
	conn   *http.ResponseController
	memory memory
	// failed says that the body ended early, ended that it did not.
	failed, ended atomic.Bool
	// hurried says that the deadline stands.
	hurried atomic.Bool
}

// Free releases the memory of the body.
func (u *Upload) Free() {
	if u != nil {
		u.memory.release()
	}
}

func (u *Upload) Read(p []byte) (int, error) {
	hurried := u.hurried.Load()
	if !hurried {
		// Writers without deadlines are those of tests; they have bodies at hand.
		_ = u.conn.SetReadDeadline(time.Now().Add(IdleTime))
	}
	n, err := u.ReadCloser.Read(p)
	if full := u.memory.hold(n, err != nil); full != nil {
		n, err = 0, full
	}
	switch {
	case hurried:
		return n, err
	case errors.Is(err, io.EOF):
		u.ended.Store(true)
	case err != nil:
		u.failed.Store(true)
		return n, err // the deadline stays: the server must not wait for more
	}
	if !u.hurried.Load() {
		_ = u.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Hurry is called when a request is answered: the HTTP server reads some of the rest
// of a body before it sends an answer, and must not wait for ever.
func Hurry(r *http.Request) {
	u, watched := r.Body.(*Upload)
	if !watched || u.ended.Load() || u.failed.Load() || u.hurried.Swap(true) {
		return
	}
	_ = u.conn.SetReadDeadline(time.Now().Add(IdleTime))
}

// Broken reports whether the body of a request ended early.
func Broken(r *http.Request) bool {
	u, watched := r.Body.(*Upload)
	return watched && u.failed.Load()
}
