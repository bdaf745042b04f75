package rpc

import (
	"io"
	"os"
	"sync"
	"time"
)

// upload is the body of a request while it arrives.
type upload struct {
	*io.PipeReader
	in *io.PipeWriter
	// ended is closed at the end of the body.
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

// add passes a part on, and returns when it was read or the reader is gone.
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

// until sets the read deadline; the zero time is none.
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
