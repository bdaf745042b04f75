// Package respond writes answers that come from Unloop instead of an upstream.
//
// It knows HTTP. Its callers know what an answer says, and in which format.
package respond

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/client"
)

// StatusClientLeft is the status for a client that left, as in the logs of other proxies.
// Without it net/http would send 200 to a client that only stopped sending.
const StatusClientLeft = 499

// Write writes an answer. The server omits the body for HEAD requests.
func Write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left needs no answer
}

// JSON writes a value as JSON.
func JSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte("{}")
	}
	Write(w, status, provider.TypeJSON, body)
}

// Error writes an error of Unloop's own API.
func Error(w http.ResponseWriter, err *client.Error) {
	JSON(w, err.Status, map[string]*client.Error{"error": err})
}

// Refuse refuses a request in its provider's format.
func Refuse(w http.ResponseWriter, r *http.Request, p provider.Provider, refusal provider.Refusal) {
	intake.Hurry(r)
	for _, h := range refusal.Headers {
		w.Header().Set(h.Name, h.Value)
	}
	Write(w, refusal.Status, provider.TypeJSON, p.Refusal(refusal))
}
