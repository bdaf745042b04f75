package intake

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// IdleTime is how long a client may pause in the middle of its body.
const IdleTime = time.Minute

// Upload is the body of a request while it arrives. It ends if the client stops sending, so
// that connection and memory are not held forever, and distinguishes that from a failing
// upstream.
type Upload struct {
	io.ReadCloser
	conn *http.ResponseController
	// announced is how much of the body is still to come; -1 if unknown.
	announced int64
	// waited is the time spent waiting for the client.
	waited time.Duration
	memory Memory
	// failed is set if the body ended early, ended if it is complete.
	failed, ended atomic.Bool
	// hurried is set by Hurry: the read deadline stays.
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

// Take waits for memory for n bytes of copies of the body.
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

// Try is Take without waiting. After ErrNoRoom, Again waits for the missing memory.
func (u *Upload) Try(n int) error {
	if u == nil {
		return nil
	}
	return u.memory.try(int64(n))
}

// Again waits for the memory that Try lacked. The caller then repeats all its tries.
func (u *Upload) Again() error { return u.memory.again() }

// prepare waits until there is memory for n more bytes.
func (u *Upload) prepare(n int64) error {
	if u == nil {
		return nil
	}
	return u.memory.prepare(n)
}

// pass stops accounting: the rest of the body is not held in memory.
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

// Hurry is called when a request is answered: the HTTP server reads some of the rest of the
// body before it sends the answer, and must not wait forever.
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
