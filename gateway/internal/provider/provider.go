// Package provider reads the wire formats of LLM APIs: whose key a request
// bears, what it asks, how a hint gets into it, and how a refusal looks to the
// provider's own SDKs. Each format is one folder below; package formats lists them.
//
// It knows formats, not policies, routes or detectors.
package provider

import (
	"errors"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/provider/transcript"
	"github.com/unloop/unloop/gateway/internal/repair"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Provider is one wire format.
type Provider interface {
	// Name of the format, as metrics show it.
	Name() string
	// Key returns the API key that the request bears, whole, or "".
	Key(r *http.Request) string
	// Parse reads a request body. It returns nil if the body is valid but asks
	// nothing of a model, and an error if it can't be inspected. The prompt holds
	// slices of the body.
	Parse(body []byte, opts Options) (*Prompt, error)
	// Refusal is the body of an answer that refuses a request, as JSON.
	Refusal(Refusal) []byte
	// Answer is what a model that says the text would have answered to a prompt, in
	// the form that the request asks for. Where there is none the error is
	// ErrNoAnswer.
	Answer(*Prompt, Reply) (Answer, error)
	// Hint returns a body that says text to the model and is else the same, byte
	// for byte. Without a place for it the error is ErrNoPlace. Position is Head or
	// Result.
	Hint(body []byte, text, position string) ([]byte, error)
	// Repair mends what is broken in the history of tool calls. A body that needs
	// none, or has none, is returned as it is.
	Repair(body []byte) ([]byte, repair.Report, error)
}

// Where a hint is put.
const (
	Head   = "head"   // with the system prompt
	Result = "result" // behind the newest message of a user or tool
)

// ErrNoPlace says that a body can't take a hint.
var ErrNoPlace = errors.New("no place for a hint")

// ErrAmbiguous says that a body names one thing twice, in two spellings.
var ErrAmbiguous = errors.New("one field in two spellings")

// Options say what of a prompt is needed.
type Options struct {
	// Tail is how many of the newest messages are compared.
	Tail int
	// Items is how many of the newest tool rounds and human messages are wanted.
	Items int
	// Exchanges is how many exchanges before the newest one are told by digests.
	Exchanges int
	// Path is the request's path, where some formats name the model.
	Path string
	// Known are calls that the provider keeps, by the ids of the items by which a
	// request may refer to them.
	Known map[string]ToolCall
	// Cache spares the reading of long texts that were read before; nil for none.
	Cache *transcript.Cache
}

// NewCache returns a cache for all the requests of a gateway.
func NewCache() *transcript.Cache { return transcript.NewCache() }

// Again reports whether the newest round of a history repeats an earlier one after
// other work, as transcript.Again does.
func Again(items []Item) bool { return transcript.Again(items) }

// The evidence in a conversation.
type (
	// Message is one message of a prompt, by its digests.
	Message = transcript.Message
	// Item is a tool round or a human message.
	Item = transcript.Item
	// ToolCall is one call of a round with its result.
	ToolCall = transcript.ToolCall
	// Rules say how results are read.
	Rules = transcript.Rules
)

// Prompt is what a request asks of a model.
type Prompt struct {
	Model  string
	Stream bool
	// StreamUsage says that a stream is to end with what it cost, which otherwise
	// it does not tell.
	StreamUsage bool
	// Structured says that the answer must be JSON of a kind that the request sets.
	Structured bool
	// User is the end user that the request names.
	User string
	// Session is the session that the format's own fields name.
	Session string
	// Previous is the id of the answer that the request goes on from, where the
	// provider keeps the history. The prompt then holds only what is new.
	Previous string
	// Delta says that the provider keeps the history: under Previous, or under the
	// conversation that Session names.
	Delta bool
	// References are the ids of the items that the request refers to, in order, where
	// those may be calls.
	References []string
	// Background says that the answer is fetched later.
	Background bool
	// Referable says that a later request may refer to the items of the answer.
	Referable bool
	// Conversation is the id under which the provider keeps the history, where it
	// has one of its own.
	Conversation string
	// Opening identifies the conversation by its first system and first human
	// message; zero for a Delta.
	Opening fingerprint.Digest
	// Tail are the newest messages, oldest first.
	Tail []Message
	// Messages is how many the request brings.
	Messages int
	// Transcript has more about the conversation, as long as the body is unchanged:
	// History, Exchange, Agent.
	Transcript *transcript.Transcript
}

// NewTranscript returns the transcript that a format feeds.
func NewTranscript(o Options) *transcript.Transcript {
	return transcript.New(transcript.Options{Tail: o.Tail, Items: o.Items, Exchanges: o.Exchanges, Cache: o.Cache})
}

// Finish takes what a format fed into a transcript into the prompt.
func (p *Prompt) Finish(t *transcript.Transcript) *Prompt {
	p.Transcript, p.Messages, p.Tail = t, t.Messages(), t.Tail()
	if !p.Delta {
		p.Opening = t.Opening()
	}
	return p
}

// Refusal is why a request was not forwarded.
type Refusal struct {
	Status  int
	Code    string
	Message string
	// Headers are set on the answer, beside its type and length.
	Headers []Header
	// Detail is put as it is beside and into the format's own error; nil for
	// none.
	Detail *Detail
}

// Header is a header of an answer.
type Header struct{ Name, Value string }

// Detail tells a client's code about a loop.
type Detail struct {
	Error           string `json:"error"`
	Message         string `json:"message"`
	Detector        string `json:"detector"`
	Policy          string `json:"policy"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        uint32 `json:"hit_count"`
	WindowSeconds   uint32 `json:"window_seconds"`
	CooldownSeconds uint32 `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
}

// Bearer returns the token of an Authorization header; the whole value where
// the scheme is another one.
func Bearer(h http.Header) string {
	value := h.Get("Authorization")
	if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return value
}

// FirstHeader returns the first of the named headers that is set.
func FirstHeader(h http.Header, names ...string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
