package rpc

import (
	"bytes"
	"net/http"
	"time"
)

// writer keeps an answer of the gateway's own. It implements http.ResponseWriter.
type writer struct {
	header http.Header
	status int
	body   bytes.Buffer
	// upload is the body of the request; nil for one that came whole.
	upload *upload
}

func newWriter(u *upload) *writer { return &writer{header: http.Header{}, upload: u} }

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// SetReadDeadline sets when the request's body has to go on; see http.ResponseController.
func (w *writer) SetReadDeadline(at time.Time) error {
	if w.upload != nil {
		w.upload.until(at)
	}
	return nil
}
