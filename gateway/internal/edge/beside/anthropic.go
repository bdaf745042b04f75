package beside

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/schemas/client"
)

// anthropicHooks are Anthropic's inference hooks, which ask before each prompt of an
// organization is answered, and sign as Standard Webhooks specifies.
type anthropicHooks struct{}

type anthropicHook struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Tenant    string `json:"tenant_id"`
	Actor     struct {
		ID string `json:"id"`
	} `json:"actor"`
	Source struct {
		Application string `json:"application"`
	} `json:"source"`
	Session  string             `json:"session_id"`
	Model    string             `json:"model"`
	Messages []anthropicMessage `json:"messages"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []map[string]any `json:"content"`
}

const (
	maxDenyReason  = 500
	maxReferenceID = 50
)

func (anthropicHooks) ask(_ *http.Request, body []byte) (any, error) {
	var hook anthropicHook
	if err := json.Unmarshal(body, &hook); err != nil {
		return nil, fmt.Errorf("a hook's request: %w", err)
	}
	switch {
	case hook.Type != "prompt" || hook.Source.Application == "config-test":
		return nil, nil
	case len(hook.Messages) == 0:
		return nil, errEmpty
	}
	for _, m := range hook.Messages {
		for _, block := range m.Content {
			if name, ok := block["tool_name"]; ok { // the API says name, in calls only
				delete(block, "tool_name")
				if block["type"] == "tool_use" {
					block["name"] = name
				}
			}
		}
	}
	text, err := json.Marshal(map[string]any{"model": hook.Model, "max_tokens": 1, "messages": hook.Messages, "metadata": map[string]string{"user_id": hook.Actor.ID}})
	return client.Request{Format: "anthropic-messages", Body: text, Session: hook.Session, Tenant: hook.Tenant, RequestID: hook.RequestID}, err
}

func (anthropicHooks) answer(w http.ResponseWriter, _ []byte, v verdict) {
	answer := map[string]string{"action": "allow"}
	if v.stops {
		answer = map[string]string{"action": "deny", "deny_reason": short(v.message, maxDenyReason), "reference_id": short(v.loopID, maxReferenceID)}
	}
	respond.JSON(w, http.StatusOK, answer)
}

// signer is the name of the caller that signs its requests.
const signer = "anthropic"

// read returns the body of a question and the name of its verified signer; "" for a caller
// that needs a key instead.
func (h *Handler) read(r *http.Request, name string) (body []byte, by string, fault *client.Error) {
	if name != signer {
		body, fault = h.api.Text(r)
		return body, "", fault
	}
	invalid := func(why string) *client.Error {
		return &client.Error{Status: http.StatusUnauthorized, Code: "invalid_signature", Message: name + ": " + why}
	}
	if h.signed == nil {
		return nil, "", invalid("the gateway needs the hook's secret in --beside-secret " + name + "=env:VARIABLE")
	}
	if body, fault = h.api.SignedText(r); fault != nil {
		return nil, "", fault
	}
	if h.signed.Verify(body, r.Header) != nil {
		return nil, "", invalid("the signature does not match the secret of --beside-secret")
	}
	return body, name, nil
}

func (anthropicHooks) refuse(w http.ResponseWriter, r *http.Request, fault *client.Error) {
	refuseAs(w, r, anthropic.Format, fault)
}
