// Package provider declares what the gateway needs of a wire format of an LLM API: the
// key of a request, its prompt, a place for a hint, the repair of its history, and the
// answers that the provider's own SDKs understand. Each format is one folder below;
// package formats lists them.
//
// It knows no policy, no route and no detector.
package provider

import (
	"errors"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/prefixcache"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/size"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/rounds"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Provider is one wire format.
type Provider interface {
	// Name returns the name of the format in metrics.
	Name() string
	// Key returns the API key of the request, or "".
	Key(r *http.Request) string
	// Parse reads a request body. It returns nil if the body is valid but is no
	// prompt, and an error if it can't be inspected. The prompt holds slices of the
	// body.
	Parse(body []byte, opts Options) (*Prompt, error)
	// Refusal returns the body of an answer that refuses a request, as JSON.
	Refusal(Refusal) []byte
	// Answer returns the answer of a model that says the text of the reply, in the form
	// that the request asks for. The error is ErrNoAnswer if there is no such form.
	Answer(*Prompt, Reply) (Answer, error)
	// Hint returns the body with a text for the model added, and every other byte as it
	// was. Position is Head or Result. The error is ErrNoPlace if the body has no such
	// place.
	Hint(body []byte, text, position string) ([]byte, error)
	// Repair returns the body with its history of tool calls corrected. A body that
	// needs no repair is returned as it is.
	Repair(body []byte) ([]byte, repair.Report, error)
}

// Positions of a hint.
const (
	Head   = "head"   // with the system prompt
	Result = "result" // behind the newest message of a user or tool
)

// ErrNoPlace reports that a body has no place for a hint.
var ErrNoPlace = tree.ErrNoPlace

// ErrAmbiguous reports that a body has one field twice, in two spellings.
var ErrAmbiguous = errors.New("one field in two spellings")

// Options say which parts of a prompt are needed.
type Options struct {
	// Tail is the number of newest messages in Prompt.Tail.
	Tail int
	// Items is the number of newest tool rounds and human messages in the history.
	Items int
	// Exchanges is the number of exchanges before the newest one that have digests.
	Exchanges int
	// Path is the request's path, which names the model in some formats.
	Path string
	// Known are calls that the provider keeps, by the ids of the items with which a
	// request may refer to them.
	Known map[string]ToolCall
	// Continue is the conversation that the body continues; nil if the body has all of it.
	Continue *transcript.Transcript
	// Cache holds what was read from long texts before; nil for none.
	Cache *message.Cache
	// Prefixes has the earlier requests that may begin alike. Requests with other options need
	// another scope.
	Prefixes prefixcache.Scope
	// Stop reports whether the prompt is no longer needed, which then may be incomplete; nil
	// means never.
	Stop func() bool
}

// NewCache returns a cache for all the requests of a gateway.
func NewCache() *message.Cache { return message.NewCache() }

// Again is rounds.Again.
func Again(items []Item) bool { return rounds.Again(items) }

// The evidence in a conversation.
type (
	// Message is one message of a prompt, by its digests.
	Message = message.Digests
	// Item is a tool round or a human message.
	Item = rounds.Item
	// ToolCall is one call of a round with its result.
	ToolCall = message.ToolCall
	// Rules say how results are read.
	Rules = rounds.Rules
)

// Prompt is a request to a model.
type Prompt struct {
	Model  string
	Stream bool
	// StreamUsage says that the stream must end with its usage.
	StreamUsage bool
	// Structured says that the answer must be JSON of a form that the request sets.
	Structured bool
	// User is the end user that the request names.
	User string
	// Session is the session in the format's own fields.
	Session string
	// Previous is the id of the answer that the request continues, if the provider
	// keeps the history. The prompt then has only the new messages.
	Previous string
	// Delta says that the provider keeps the history: under Previous, or under the
	// conversation that Session names.
	Delta bool
	// References are the ids of the items that the request refers to and that may be
	// calls, in order.
	References []string
	// Stored says that the provider keeps the prompt, and the request names it.
	Stored bool
	// Background says that the answer is fetched by a later request.
	Background bool
	// Referable says that a later request may refer to the items of the answer.
	Referable bool
	// Conversation is the id of the history that the provider keeps, if it has one.
	Conversation string
	// Opening identifies the conversation by its first system and first human
	// message; zero for a Delta.
	Opening fingerprint.Digest
	// Tail are the newest messages, oldest first.
	Tail []Message
	// Transcript is the conversation. It is valid as long as the body is unchanged.
	Transcript *transcript.Transcript
	// Size is the size of the body, if it is known; zero if it is not.
	Size size.Size
}

// Refusal is an answer to a request that is not forwarded.
type Refusal struct {
	Status  int
	Code    string
	Message string
	// Headers are set on the answer, beside its type and length.
	Headers []Header
	// Detail is a member of the answer and, without its message, of the format's own
	// error; nil for none.
	Detail *client.Detail
}

// InError returns the detail for the format's own error, without the message that the error
// already has; nil for none.
func (r Refusal) InError() *client.Detail {
	if r.Detail == nil {
		return nil
	}
	inner := *r.Detail
	inner.Message = ""
	return &inner
}

// Header is a header of an answer.
type Header struct{ Name, Value string }

// Bearer returns the token of an Authorization header. For other schemes it returns the value up
// to the first comma: what follows in a signed request is the signature, which changes each time.
func Bearer(h http.Header) string {
	value := h.Get("Authorization")
	if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return token
	}
	value, _, _ = strings.Cut(value, ",")
	return value
}
