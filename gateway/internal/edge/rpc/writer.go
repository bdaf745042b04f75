package rpc

import (
	"net/http"
	"time"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
)

// writer records the gateway's own answer.
type writer struct {
	respond.Recorder
	// upload is the body of the request; nil if it came whole.
	upload *upload
}

func newWriter(u *upload) *writer {
	return &writer{Recorder: respond.Recorder{Headers: http.Header{}}, upload: u}
}

// SetReadDeadline sets the deadline for reading the request's body; see
// http.ResponseController.
func (w *writer) SetReadDeadline(at time.Time) error {
	if w.upload != nil {
		w.upload.until(at)
	}
	return nil
}
