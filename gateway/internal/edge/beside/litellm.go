package beside

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/schemas/client"
)

// liteLLM is LiteLLM's generic guardrail API
// (docs.litellm.ai/docs/adding_provider/generic_guardrail_api). Requests come with their
// history. Answers pass: the calls that they make come back in the next request.
type liteLLM struct{}

type liteLLMRequest struct {
	Type     string            `json:"input_type"`
	CallID   string            `json:"litellm_call_id"`
	TraceID  string            `json:"litellm_trace_id"`
	Model    string            `json:"model"`
	Messages json.RawMessage   `json:"structured_messages"`
	Texts    []string          `json:"texts"`
	Tools    []json.RawMessage `json:"tools"`
	Headers  map[string]string `json:"request_headers"`
	Data     struct {
		Key     string `json:"user_api_key_hash"`
		EndUser string `json:"user_api_key_end_user_id"`
		Team    string `json:"user_api_key_team_id"`
	} `json:"request_data"`
}

// present is LiteLLM's placeholder for the value of a secret header.
const present = "[present]"

func (liteLLM) ask(_ *http.Request, body []byte) (any, error) {
	var q liteLLMRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fmt.Errorf("a guardrail's request: %w", err)
	}
	if q.Type == "response" {
		return nil, nil
	}
	check := client.Request{
		Model: q.Model, Messages: q.Messages, RequestID: q.CallID, Tenant: q.Data.Team,
		User: strings.Trim(q.Data.Key+"/"+q.Data.EndUser, "/"), Session: q.session(),
	}
	if len(q.Messages) == 0 || string(q.Messages) == "null" || string(q.Messages) == "[]" {
		if len(q.Texts) == 0 {
			return nil, errEmpty
		}
		check.Messages, check.Prompt = nil, q.Texts[len(q.Texts)-1]
	}
	return check, nil
}

// session returns the session that LiteLLM's client named; "" if Unloop has to derive it.
func (q *liteLLMRequest) session() string {
	for name, value := range q.Headers {
		if slices.Contains([]string{"x-litellm-session-id", "x-session-id"}, strings.ToLower(name)) && value != present {
			return value
		}
	}
	return ""
}

func (liteLLM) answer(w http.ResponseWriter, body []byte, v verdict) {
	answer := map[string]any{"action": "NONE"}
	var q liteLLMRequest
	if v.message != "" {
		_ = json.Unmarshal(body, &q) // ask has read it
	}
	switch tools, found := without(q.Tools, v.tool); {
	case v.stops && found && !v.ends:
		// The model can go on with its other tools.
		answer = map[string]any{"action": "GUARDRAIL_INTERVENED", "tools": tools, "texts": hinted(q.Texts, v.message)}
	case v.stops:
		answer = map[string]any{"action": "BLOCKED", "blocked_reason": v.message}
	case v.message != "" && len(q.Texts) > 0:
		answer = map[string]any{"action": "GUARDRAIL_INTERVENED", "texts": hinted(q.Texts, v.message)}
	}
	respond.JSON(w, http.StatusOK, answer)
}

// without returns the tools except the named one, and whether it was found and others are
// left.
func without(tools []json.RawMessage, name string) (rest []json.RawMessage, found bool) {
	for _, t := range tools {
		var tool struct {
			Name     string `json:"name"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(t, &tool) == nil && name != "" && cmp.Or(tool.Function.Name, tool.Name) == name {
			found = true
			continue
		}
		rest = append(rest, t)
	}
	return rest, found && len(rest) > 0
}

// hinted appends a hint to the last text: LiteLLM wants as many texts as it sent.
func hinted(texts []string, hint string) []string {
	out := slices.Clone(texts)
	if len(out) > 0 {
		out[len(out)-1] += "\n\n" + hint
	}
	return out
}

// refuse answers in OpenAI's error format, which LiteLLM uses.
func (liteLLM) refuse(w http.ResponseWriter, r *http.Request, fault *client.Error) {
	refuseAs(w, r, chat.Format, fault)
}
