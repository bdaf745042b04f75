package respond

import (
	"bytes"
	"net/http"
)

// Recorder is an http.ResponseWriter that keeps the answer.
type Recorder struct {
	Headers http.Header
	// Status is 0 until the answer begins.
	Status int
	Body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *Recorder) Header() http.Header { return r.Headers }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status = status
	}
}

// Write implements http.ResponseWriter.
func (r *Recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.Body.Write(p)
}
