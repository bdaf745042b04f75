package rpc

import (
	"io"
	"os"
	"sync"
	"time"
)

// upload is the body of a request as it comes in.
type upload struct {
	*io.PipeReader
	in *io.PipeWriter
	// ended is closed once the body is over.
	ended chan struct{}
	once  sync.Once

	mu    sync.Mutex
	timer *time.Timer
}

func newUpload() *upload {
	u := &upload{ended: make(chan struct{})}
	u.PipeReader, u.in = io.Pipe()
	return u
}

// add passes a part on, and returns once it was read or nobody reads any more.
func (u *upload) add(part []byte) {
	if len(part) > 0 {
		_, _ = u.in.Write(part) // who reads no more wants no more
	}
}

// end ends the body; with an error it ended early.
func (u *upload) end(err error) {
	u.once.Do(func() {
		_ = u.in.CloseWithError(err) // never fails
		u.until(time.Time{})
		close(u.ended)
	})
}

// until ends reading at a time unless the body goes on; the zero time waits forever.
func (u *upload) until(at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.Stop()
	}
	if !at.IsZero() {
		u.timer = time.AfterFunc(time.Until(at), func() { _ = u.in.CloseWithError(os.ErrDeadlineExceeded) })
	}
}
