package beside

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/schemas/client"
)

// agentGateway is agentgateway's webhook for prompt guards (/request and /response). It sends
// messages as text.
type agentGateway struct{}

type agentGatewayBody struct {
	Body struct {
		Messages []json.RawMessage `json:"messages"`
	} `json:"body"`
}

func (agentGateway) ask(r *http.Request, body []byte) (any, error) {
	if strings.HasSuffix(r.URL.Path, "/response") {
		return nil, nil
	}
	var q agentGatewayBody
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("a webhook's request: %w", err)
	}
	if len(q.Body.Messages) == 0 {
		return nil, errEmpty
	}
	messages, err := json.Marshal(q.Body.Messages)
	return client.Request{Messages: messages, Model: "agentgateway"}, err
}

func (agentGateway) answer(w http.ResponseWriter, body []byte, v verdict) {
	action := map[string]any{}
	switch {
	case v.stops:
		action = map[string]any{"body": v.message, "status_code": http.StatusTooManyRequests, "reason": "recursive_loop_detected"}
	case v.message != "":
		var q agentGatewayBody
		_ = json.Unmarshal(body, &q) // ask has read it
		hint, _ := json.Marshal(map[string]string{"role": "system", "content": v.message})
		action = map[string]any{"body": map[string]any{"messages": append(q.Body.Messages, hint)}, "reason": "hint"}
	}
	respond.JSON(w, http.StatusOK, map[string]any{"action": action})
}

// refuse has the shape of a reject; agentgateway obeys its own failure mode.
func (agentGateway) refuse(w http.ResponseWriter, _ *http.Request, fault *client.Error) {
	respond.JSON(w, fault.Status, map[string]any{"action": map[string]any{"body": fault.Message, "status_code": fault.Status, "reason": fault.Code}})
}
