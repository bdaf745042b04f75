// Package anthropic reads Anthropic's Messages API.
package anthropic

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/schemas/client"
)

// Other is the provider of Anthropic's other paths, which have no prompt.
type Other struct{ plain.Plain }

// Name returns "anthropic-http".
func (Other) Name() string { return "anthropic-http" }

// Key returns the API key, or the token of a subscription.
func (Other) Key(r *http.Request) string {
	return cmp.Or(r.Header.Get("X-Api-Key"), provider.Bearer(r.Header))
}

// Refusal has the shape of Anthropic's errors.
func (Other) Refusal(r provider.Refusal) []byte {
	type inner struct {
		Type    string         `json:"type"`
		Message string         `json:"message"`
		Code    string         `json:"code"`
		Detail  *client.Detail `json:"detail,omitempty"`
	}
	return provider.JSON(struct {
		Type   string         `json:"type"`
		Error  inner          `json:"error"`
		Detail *client.Detail `json:"detail,omitempty"`
	}{"error", inner{errorTypes.Of(r.Status), r.Message, r.Code, r.InError()}, r.Detail})
}

// errorTypes are Anthropic's names of errors.
var errorTypes = provider.StatusNames{
	Names: map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error", http.StatusGatewayTimeout: "timeout_error",
	},
	Client: "invalid_request_error", Server: "api_error",
}

// Messages implements provider.Provider.
type Messages struct{ Other }

// Name returns "anthropic-messages".
func (Messages) Name() string { return "anthropic-messages" }

// Parse reads a request for a message.
func (Messages) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := reader{Reader: provider.NewReader(body, opts)}
	err := p.ReadMembers(p.member)
	p.Prompt.Model = cmp.Or(p.Prompt.Model, fromPath(opts.Path))
	return p.Parsed("Messages", err)
}

// locate returns the located form of a body.
func locate(body []byte) (*tree.Tree, error) {
	p := reader{Reader: provider.NewLocator(body, &tree.Tree{})}
	return p.Tree, p.ReadMembers(p.member)
}

// Hint puts text into the system prompt, or behind the newest user message. In a
// list of system blocks it is the last: what stands before it may be cached, and
// for some keys must begin in a certain way. A message with the results of calls that
// the provider's code made takes no text.
func (Messages) Hint(body []byte, text, position string) ([]byte, error) {
	t, err := locate(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	case position == provider.Result:
		return t.Append("text", text)
	case t.System.Kind(body) == '[':
		return splice.AppendElement(body, t.System, tree.TextPart("text", text)), nil
	default:
		return t.Instruct("system", text)
	}
}

// Repair corrects the history. Anthropic joins neighbours of one role, accepts a
// history that begins with the assistant, and refuses texts of white space alone.
func (Messages) Repair(body []byte) ([]byte, repair.Report, error) {
	t, err := locate(body)
	if err != nil {
		return body, repair.Report{}, fmt.Errorf("repair Messages body: %w", err)
	}
	return t.Repair(&tree.Format{Rules: repair.Rules{Joined: true, Blank: true}, Content: "content", Lost: lost})
}

// lost returns the result of a call that has none.
func lost(id string) []byte {
	return fmt.Appendf(nil, `{"type":"tool_result","tool_use_id":%s,"is_error":true,"content":%s}`, splice.Quote(id), splice.Quote(repair.Lost))
}
