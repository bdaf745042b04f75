package beside

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/schemas/client"
)

// portkey is the webhook guardrail of Portkey's gateway (default.webhook), which sends the
// provider's body.
type portkey struct{}

type portkeyHook struct {
	Event   string `json:"eventType"`
	Type    string `json:"requestType"`
	Request struct {
		JSON json.RawMessage `json:"json"`
	} `json:"request"`
	Metadata map[string]any `json:"metadata"`
}

// portkeyFormats maps Portkey's request types to formats. Other types are not checked.
var portkeyFormats = map[string]string{
	"chatComplete": "openai-chat", "complete": "http", "messages": "anthropic-messages", "createModelResponse": "openai-responses",
}

func (portkey) ask(r *http.Request, body []byte) (any, error) {
	var hook portkeyHook
	if err := json.Unmarshal(body, &hook); err != nil {
		return nil, fmt.Errorf("a webhook's request: %w", err)
	}
	format := portkeyFormats[hook.Type]
	if strings.HasPrefix(hook.Event, "after") || format == "" {
		return nil, nil
	}
	if len(hook.Request.JSON) == 0 || hook.Request.JSON[0] != '{' {
		return nil, errEmpty
	}
	check := client.Request{Format: format, Body: hook.Request.JSON, Session: cmp.Or(hook.text("session_id"), hook.text("_session"), r.Header.Get("X-Portkey-Trace-Id"))}
	if format == "http" {
		check.Path = "/v1/completions"
	}
	check.Tenant = hook.text("tenant_id")
	return check, nil
}

func (h *portkeyHook) text(name string) string {
	s, _ := h.Metadata[name].(string)
	return s
}

func (portkey) answer(w http.ResponseWriter, _ []byte, v verdict) {
	answer := map[string]any{"verdict": !v.stops}
	if v.message != "" {
		answer["data"] = map[string]string{"reason": v.message, "loop_id": v.loopID}
	}
	respond.JSON(w, http.StatusOK, answer)
}

// refuse answers like a failed Portkey check, which lets the request pass.
func (portkey) refuse(w http.ResponseWriter, _ *http.Request, fault *client.Error) {
	respond.JSON(w, fault.Status, map[string]any{"verdict": true, "data": nil, "error": map[string]string{"name": fault.Code, "message": fault.Message}})
}
