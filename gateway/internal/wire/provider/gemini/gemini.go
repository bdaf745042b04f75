// Package gemini reads Gemini's generateContent and streamGenerateContent. Their JSON
// has two spellings, camelCase and snake_case.
package gemini

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/schemas/client"
)

// Other is the provider of Gemini's other paths, which have no prompt.
type Other struct{ plain.Plain }

// Name returns "gemini-http".
func (Other) Name() string { return "gemini-http" }

// Key returns the API key, from a header or the query, or a bearer token.
func (Other) Key(r *http.Request) string {
	return cmp.Or(r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"), provider.Bearer(r.Header))
}

// Refusal has the shape of Google's errors.
func (Other) Refusal(r provider.Refusal) []byte {
	type info struct {
		Type     string            `json:"@type"`
		Reason   string            `json:"reason"`
		Domain   string            `json:"domain"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
	type inner struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Status  string         `json:"status"`
		Details []info         `json:"details"`
		Detail  *client.Detail `json:"detail,omitempty"`
	}
	return provider.JSON(struct {
		Error  inner          `json:"error"`
		Detail *client.Detail `json:"detail,omitempty"`
	}{inner{r.Status, r.Message, statusNames.Of(r.Status), []info{{
		"type.googleapis.com/google.rpc.ErrorInfo", strings.ToUpper(r.Code), "unloop", metadata(r.Detail),
	}}, r.InError()}, r.Detail})
}

// metadata returns the detail as texts, in the place where Google's own SDKs keep it:
// the Go SDK drops all that does not have Google's shape.
func metadata(d *client.Detail) map[string]string {
	if d == nil {
		return nil
	}
	return map[string]string{
		"detector": d.Detector, "policy": d.Policy, "fingerprint": d.Fingerprint, "loop_id": d.LoopID,
		"hit_count": strconv.Itoa(d.HitCount), "window_seconds": strconv.Itoa(d.WindowSeconds), "cooldown_seconds": strconv.Itoa(d.CooldownSeconds),
	}
}

// statusNames are Google's names of HTTP statuses.
var statusNames = provider.StatusNames{
	Names: map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusInternalServerError: "INTERNAL", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
	},
	Client: "INVALID_ARGUMENT", Server: "UNAVAILABLE",
}

// Generate implements provider.Provider.
type Generate struct{ Other }

// Name returns "gemini".
func (Generate) Name() string { return "gemini" }

// Parse reads a request for content.
func (Generate) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := reader{Reader: provider.NewReader(body, opts)}
	p.Prompt.Model, p.Prompt.Stream = fromPath(opts.Path)
	return p.Parsed("generateContent", p.read())
}

// fromPath reads …/models/NAME:METHOD.
func fromPath(path string) (model string, stream bool) {
	name, method, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return name, method == "streamGenerateContent"
}

// locate returns the located form of a body.
func locate(body []byte) (*located, error) {
	at := &located{functions: map[string]function{}}
	p := reader{Reader: provider.NewLocator(body, &at.Tree), at: at}
	return at, p.read()
}

// Hint adds a part to the system instruction, or to the newest content of the user,
// which contains function responses too.
func (Generate) Hint(body []byte, text, position string) ([]byte, error) {
	t, err := locate(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	}
	part := fmt.Appendf(nil, `{"text":%s}`, splice.Quote(text))
	if position == provider.Result {
		return addPart(body, t.Newest, part)
	}
	switch {
	case t.cached: // Gemini refuses instructions beside cached ones
		return nil, tree.NoPlace("the instructions are cached")
	case !t.System.Found():
		return splice.AddMember(body, t.Object, "systemInstruction", fmt.Appendf(nil, `{"parts":[%s]}`, part)), nil
	case t.System.Kind(body) == 'n':
		return splice.Replace(body, t.System, fmt.Appendf(nil, `{"parts":[%s]}`, part)), nil
	case t.System.Kind(body) == '"':
		return splice.PrependText(body, t.System, text), nil
	case !t.systemParts.Found():
		return splice.AddMember(body, t.System, "parts", splice.Array(part)), nil
	default:
		return addPart(body, t.systemParts, part)
	}
}

// addPart adds a part behind others. A single part may stand without a list.
func addPart(body []byte, parts splice.Place, part []byte) ([]byte, error) {
	switch parts.Kind(body) {
	case '[':
		return splice.AppendElement(body, parts, part), nil
	case '{':
		return splice.Replace(body, parts, splice.Array(body[parts.From:parts.To], part)), nil
	default:
		return nil, tree.NoPlace("no parts of the instruction or of the user")
	}
}
