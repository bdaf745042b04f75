package beside

import (
	"bytes"
	"net/http"
)

// answer writes the decision about a question. What is said about a large question may repeat parts
// of it, and is made in turn. Without a turn a stop is said without them, and no hint is given.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, c caller, body []byte, v verdict) {
	if v.message == "" {
		c.answer(w, body, v)
		return
	}
	give, fault := h.api.Turn(r, len(body))
	if fault != nil {
		give, body = func() {}, nil
		if !v.stops {
			v = verdict{}
		}
	}
	k := &kept{ResponseWriter: w, status: http.StatusOK}
	func() {
		defer give()
		c.answer(k, body, v)
	}()
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body.Bytes()) // who left needs no answer
}

// kept keeps an answer, so that no turn lasts until its caller has read it.
type kept struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write implements http.ResponseWriter.
func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }
