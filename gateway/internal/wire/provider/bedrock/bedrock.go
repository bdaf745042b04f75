// Package bedrock reads the API of AWS Bedrock: Converse, and Anthropic's Messages by
// InvokeModel. Its streams are binary, and its requests may be signed.
package bedrock

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/schemas/client"
)

// Other is the provider of Bedrock's other paths, which have no prompt that is read.
type Other struct{ plain.Plain }

// Name returns "bedrock-http".
func (Other) Name() string { return "bedrock-http" }

// Key returns the bearer key, or who signed the request.
func (Other) Key(r *http.Request) string {
	if by, signed := strings.CutPrefix(r.Header.Get("Authorization"), signedBy); signed {
		id, _, _ := strings.Cut(by, "/")
		return id
	}
	return provider.Bearer(r.Header)
}

// Refusal has the shape of AWS's errors. SDKs find the type of an error in it.
func (Other) Refusal(r provider.Refusal) []byte {
	return provider.JSON(struct {
		Type    string         `json:"__type"`
		Message string         `json:"message"`
		Reason  string         `json:"reason"`
		Detail  *client.Detail `json:"detail,omitempty"`
	}{errorTypes.Of(r.Status), r.Message, r.Code, r.Detail})
}

// errorTypes are Bedrock's names of errors.
var errorTypes = provider.StatusNames{
	Names: map[int]string{
		http.StatusUnauthorized: "AccessDeniedException", http.StatusForbidden: "AccessDeniedException", http.StatusNotFound: "ResourceNotFoundException",
		http.StatusTooManyRequests: "ThrottlingException", http.StatusServiceUnavailable: "ServiceUnavailableException",
	},
	Client: "ValidationException", Server: "InternalServerException",
}

// fromPath reads …/model/ID/METHOD. An ID may have slashes.
func fromPath(path string) (model string, stream bool) {
	_, rest, _ := strings.Cut(path, "/model/")
	at := strings.LastIndexByte(rest, '/')
	if at < 0 {
		return "", false
	}
	return rest[:at], strings.HasSuffix(rest, "stream")
}

// Converse implements provider.Provider.
type Converse struct{ Other }

// Name returns "bedrock-converse".
func (Converse) Name() string { return "bedrock-converse" }

// Parse reads a request of Converse or ConverseStream.
func (Converse) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := reader{Reader: provider.NewReader(body, opts)}
	p.Prompt.Model, p.Prompt.Stream = fromPath(opts.Path)
	return p.Parsed("Converse", p.ReadMembers(p.member))
}

func locate(body []byte) (*tree.Tree, error) {
	p := reader{Reader: provider.NewLocator(body, &tree.Tree{})}
	return p.Tree, p.ReadMembers(p.member)
}

// Hint puts a block behind the instructions, or behind the newest message of the user.
func (Converse) Hint(body []byte, text, position string) ([]byte, error) {
	t, err := locate(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	}
	block := fmt.Appendf(nil, `{"text":%s}`, splice.Quote(text))
	at := t.System
	if position == provider.Result {
		at = t.Newest
	}
	switch {
	case at.Kind(body) == '[':
		return splice.AppendElement(body, at, block), nil
	case position == provider.Result:
		return nil, tree.NoPlace("the newest message has no content")
	case at.Kind(body) == 'n':
		return splice.Replace(body, at, splice.Array(block)), nil
	case at.Found():
		return nil, tree.NoPlace("system is no list")
	}
	return splice.AddMember(body, t.Object, "system", splice.Array(block)), nil
}

// Repair corrects the history. Bedrock refuses calls without results in the message that
// follows, results without calls, and texts of white space alone.
func (Converse) Repair(body []byte) ([]byte, repair.Report, error) {
	t, err := locate(body)
	if err != nil {
		return body, repair.Report{}, fmt.Errorf("repair Converse body: %w", err)
	}
	return t.Repair(&tree.Format{Rules: repair.Rules{Joined: true, Blank: true}, Content: "content", Lost: func(id string) []byte {
		return fmt.Appendf(nil, `{"toolResult":{"toolUseId":%s,"status":"error","content":[{"text":%s}]}}`, splice.Quote(id), splice.Quote(repair.Lost))
	}})
}

// Invoke implements provider.Provider for Anthropic's Messages by InvokeModel.
type Invoke struct {
	Other
	messages anthropic.Messages
}

// version is the member that each request of Anthropic's Messages has on Bedrock. An ID in
// a path may be the name of an inference profile, which does not tell what model it is.
var version = []byte(`"anthropic_version"`)

// Name returns "bedrock-anthropic".
func (Invoke) Name() string { return "bedrock-anthropic" }

// Parse reads a request for a message. Its path has the model, and whether the answer is a
// stream. Bodies of other models are no prompts that can be read.
func (i Invoke) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p, err := i.messages.Parse(body, opts)
	if err != nil || p == nil || !bytes.Contains(body, version) {
		return nil, err
	}
	p.Model, p.Stream = fromPath(opts.Path)
	return p, nil
}

// Hint is that of Anthropic's Messages.
func (i Invoke) Hint(body []byte, text, position string) ([]byte, error) {
	return i.messages.Hint(body, text, position)
}

// Repair is that of Anthropic's Messages.
func (i Invoke) Repair(body []byte) ([]byte, repair.Report, error) { return i.messages.Repair(body) }
