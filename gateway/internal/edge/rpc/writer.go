package rpc

import (
	"net/http"
	"time"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
)

// writer keeps an answer of the gateway's own. It implements http.ResponseWriter.
type writer struct {
	respond.Recorder
	// upload is the body of the request; nil for one that came whole.
	upload *upload
}

func newWriter(u *upload) *writer {
	return &writer{Recorder: respond.Recorder{Headers: http.Header{}}, upload: u}
}

// SetReadDeadline sets when the request's body has to go on; see http.ResponseController.
func (w *writer) SetReadDeadline(at time.Time) error {
	if w.upload != nil {
		w.upload.until(at)
	}
	return nil
}
