// Package openai has what OpenAI's two formats share, and with them the many servers
// that speak them: the place of keys, the shape of errors, content lists, and the
// members that name users and sessions.
package openai

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/schemas/client"
)

// API implements what the providers of both formats share.
type API struct{}

// Key returns a bearer token, or the key of an Azure deployment.
func (API) Key(r *http.Request) string {
	return cmp.Or(provider.Bearer(r.Header), r.Header.Get("Api-Key"), r.Header.Get("X-Api-Key"))
}

// Refusal has the shape of OpenAI's errors.
func (API) Refusal(r provider.Refusal) []byte {
	type inner struct {
		Message string         `json:"message"`
		Type    string         `json:"type"`
		Param   *string        `json:"param"`
		Code    string         `json:"code"`
		Detail  *client.Detail `json:"detail,omitempty"`
	}
	return provider.JSON(struct {
		Error  inner          `json:"error"`
		Detail *client.Detail `json:"detail,omitempty"`
	}{inner{r.Message, errorTypes.Of(r.Status), nil, r.Code, r.InError()}, r.Detail})
}

// errorTypes are OpenAI's names of errors.
var errorTypes = provider.StatusNames{
	Names: map[int]string{
		http.StatusTooManyRequests: "rate_limit_error", http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	},
	Client: "invalid_request_error", Server: "server_error",
}

// Hint puts text before that of a leading system or developer message, and into a system message
// before all others if there is none; or behind the content of the newest message of a user or tool.
func Hint(t *tree.Tree, text, position string) ([]byte, error) {
	switch {
	case !t.List.Found():
		return nil, tree.NoPlace("no messages")
	case position == provider.Result:
		return t.Append("text", text)
	case t.Leading.Found():
		return t.Prepend("text", text)
	}
	return splice.PrependElement(t.Body, t.List, fmt.Appendf(nil, `{"role":"system","content":%s}`, splice.Quote(text))), nil
}

// Structured reads the format that an answer must have, and reports whether it is
// another one than text.
func Structured(w *jsonwalk.Walker) (structured bool, err error) {
	err = w.Members(func(name []byte) (err error) {
		if string(name) == "type" {
			var kind []byte
			kind, err = w.Bytes()
			structured = len(kind) > 0 && string(kind) != "text"
		}
		return err
	})
	return structured, err
}

// Who collects the members that name users and sessions.
type Who struct {
	safetyID, user, metadataUser, Session string
}

// Member reads one of these members, and skips any other.
func (o *Who) Member(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "safety_identifier":
		o.safetyID, err = w.String()
	case "user":
		o.user, err = w.String()
	case "metadata":
		err = w.Members(func(name []byte) (err error) {
			switch string(name) {
			case "user_id":
				o.metadataUser, err = w.String()
			case "session_id":
				o.Session, err = w.String()
			}
			return err
		})
	}
	return err
}

// User returns the end user, by the most specific name.
func (o *Who) User() string { return cmp.Or(o.safetyID, o.user, o.metadataUser) }

// Role returns the role of that name. A developer's messages are the system's.
func Role(name []byte) message.Role {
	switch string(name) {
	case "assistant":
		return message.Assistant
	case "system", "developer":
		return message.System
	case "tool", "function":
		return message.Tool
	default:
		return message.User
	}
}
