package beside

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/schemas/client"
)

// dockerMCP is an interceptor of Docker's MCP gateway (--interceptor before:http:URL), which
// sends tool calls. An answer with a body replaces the result of the call.
type dockerMCP struct{}

func (dockerMCP) ask(r *http.Request, body []byte) (any, error) {
	type call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var q struct {
		call
		Params call `json:"params"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("an interceptor's request: %w", err)
	}
	made := q.call
	if made.Name == "" {
		made = q.Params
	}
	if made.Name == "" {
		return nil, nil // a result
	}
	session := cmp.Or(r.URL.Query().Get("session"), r.Header.Get("Mcp-Session-Id"), r.Header.Get("X-Session-Id"), "docker-mcp")
	return client.ToolCall{Session: session, Tool: made.Name, Arguments: made.Arguments}, nil
}

func (dockerMCP) answer(w http.ResponseWriter, _ []byte, v verdict) {
	if !v.stops {
		w.WriteHeader(http.StatusOK)
		return
	}
	failed(w, http.StatusOK, v.message)
}

// refuse answers with a result that is an error.
func (dockerMCP) refuse(w http.ResponseWriter, _ *http.Request, fault *client.Error) {
	failed(w, fault.Status, fault.Message)
}

// failed writes the result of a failed call.
func failed(w http.ResponseWriter, status int, text string) {
	respond.JSON(w, status, map[string]any{"isError": true, "content": []map[string]string{{"type": "text", "text": text}}})
}

// nginx is nginx's auth_request, which sends no body. The answer is 204, or 403 if the
// session is stopped by a loop of its tool calls or by an operator; auth_request passes on no
// other refusal.
type nginx struct{}

func (nginx) ask(r *http.Request, _ []byte) (any, error) {
	session := r.Header.Get("X-Session-Id")
	if session == "" {
		return nil, nil
	}
	return client.ToolCall{Session: session, Explain: true}, nil
}

func (nginx) answer(w http.ResponseWriter, _ []byte, v verdict) {
	if !v.stops {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("X-Unloop-Loop", v.loopID)
	if v.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(v.retryAfter))
	}
	respond.Error(w, &client.Error{Status: http.StatusForbidden, Code: "recursive_loop_detected", Message: v.message})
}

// refuse writes the status alone: nginx does not pass a body on.
func (nginx) refuse(w http.ResponseWriter, _ *http.Request, fault *client.Error) {
	w.WriteHeader(fault.Status)
}
