package beside

import (
	"net/http"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
)

// answer writes the decision about a question. The answer to a large question may repeat parts of
// it, and waits for its turn. Without a turn, a stop is answered without them, and no hint is given.
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
	k := &respond.Recorder{Headers: w.Header()} // no turn lasts until its caller has read the answer
	func() {
		defer give()
		c.answer(k, body, v)
	}()
	w.WriteHeader(k.Status)
	_, _ = w.Write(k.Body.Bytes()) // who left needs no answer
}
