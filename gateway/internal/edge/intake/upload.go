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
// hold a connection and memory forever, and can be told from an upstream that fails.
type Upload struct {
	io.ReadCloser
	conn *http.ResponseController
	// announced is how much of the body is still to come; -1 if it was not announced.
	announced int64
	// waited is for how long the client was waited for.
	waited time.Duration
	memory Memory
	// failed says that the body ended early, ended that it did not.
	failed, ended atomic.Bool
	// hurried says that the deadline stands.
	hurried atomic.Bool
}

// Free releases the memory of the body.
func (u *Upload) Free() {
	if u != nil {
		u.memory.Free()
	}
}

// Held returns the body of a request; nil if it has none.
func Held(r *http.Request) *Upload {
	u, _ := r.Body.(*Upload)
	return u
}

// Take takes memory for n bytes that are made of the body, and waits for it.
func (u *Upload) Take(n int) error {
	if u == nil {
		return nil
	}
	return u.memory.Take(n)
}

// Give gives back memory that Take took.
func (u *Upload) Give(n int) {
	if u != nil {
		u.memory.Give(n)
	}
}

// Try is Take without waiting. If its error is ErrNoRoom, Again waits for the missing
// memory.
func (u *Upload) Try(n int) error {
	if u == nil {
		return nil
	}
	return u.memory.try(int64(n))
}

// Again waits for the memory that Try lacked. What was tried for is given back for the same
// tries to be made again.
func (u *Upload) Again() error { return u.memory.again() }

// prepare waits until there is memory for n more bytes.
func (u *Upload) prepare(n int64) error {
	if u == nil {
		return nil
	}
	return u.memory.prepare(n)
}

// pass says that the rest of the body is not held.
func (u *Upload) pass() {
	if u != nil {
		u.memory.passing = true
	}
}

func (u *Upload) Read(p []byte) (int, error) {
	hurried := u.hurried.Load()
	if !hurried {
		// Writers without deadlines are those of tests; they have bodies at hand.
		_ = u.conn.SetReadDeadline(time.Now().Add(IdleTime))
	}
	n, err := u.read(p)
	switch {
	case hurried:
		return n, err
	case u.announced == 0, errors.Is(err, io.EOF): // over HTTP/2 the end may come with the answer
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

// read reads the next part of the body once there is memory for it.
func (u *Upload) read(p []byte) (n int, err error) {
	if u.memory.passing {
		n, err = u.ReadCloser.Read(p)
	} else {
		if err := u.prepare(int64(len(p))); err != nil {
			return 0, err
		}
		n, err = u.receive(p)
		u.memory.used += int64(n)
	}
	if u.announced > 0 {
		u.announced -= int64(n)
	}
	return n, err
}

// Hurry is called when a request is answered: the HTTP server reads some of the rest
// of a body before it sends an answer, and must not wait forever.
func Hurry(r *http.Request) {
	u := Held(r)
	if u == nil || u.ended.Load() || u.failed.Load() || u.hurried.Swap(true) {
		return
	}
	_ = u.conn.SetReadDeadline(time.Now().Add(IdleTime))
}

// Broken reports whether the body of a request ended early.
func Broken(r *http.Request) bool {
	u := Held(r)
	return u != nil && u.failed.Load()
}
