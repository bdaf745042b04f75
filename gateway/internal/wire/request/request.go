// Package request holds the values that the stages of a request pass on: its content and its
// sender.
//
// It knows wire formats as providers read them. It decides nothing, and knows
// neither policies' thresholds nor the network.
package request

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/wire/descriptor"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
)

// Why a body was not inspected, as metrics and explanations name it.
const (
	UninspectedTooLarge = "too-large"
	UninspectedEncoding = "encoding"
	UninspectedInvalid  = "invalid"
)

// Request is one request as it was read. Nothing changes it after the stage
// that reads it.
type Request struct {
	Method, Host, Path, RawQuery string
	// Caller is the sender for fair queuing, known before the body is read.
	Caller   fair.Caller
	Header   http.Header
	Target   route.Target
	Provider provider.Provider
	Body     *Body
	// Prompt is the prompt in the body; nil if there is none.
	Prompt *provider.Prompt
	// Uninspected is the reason why a body that may be a prompt was not read; "" if it was.
	Uninspected string
	// Run is the tool call to check; nil for requests to a model.
	Run *ToolRun
	// DecisionOnly and Peek ask only for the decision. A Peek is not counted. A Probe tests
	// whether loops are found, and raises no incident.
	DecisionOnly, Peek, Probe bool
}

// New returns a request before its body was read.
func New(r *http.Request, target route.Target) *Request {
	target.Format = cmp.Or(target.Format, formats.HTTP)
	return &Request{
		Method: r.Method, Host: r.Host, Path: r.URL.Path, RawQuery: r.URL.RawQuery, Header: r.Header, Caller: CallerOf(r),
		Target: target, Provider: target.Format.Provider,
	}
}

// ToolRun is one call of a tool, as a tool runner describes it.
type ToolRun struct {
	Tool      string
	Arguments []byte
	// Result is the text that the tool answered; it is set if Done.
	Result []byte
	Done   bool
	// Failed reports whether the result is an error; nil if the runner does not say.
	Failed *bool
	// Canceled says that a call that was checked before is not made.
	Canceled bool
	// Explain asks what is known about the session, without a call.
	Explain bool
}

// Principal is an authenticated client.
type Principal struct {
	// ID is the same for the same client, and of no use as a credential.
	ID string
	// Tenant is the client's tenant by its token, where Tenanted.
	Tenant   string
	Tenanted bool
}

// Subject is who sent a request.
type Subject struct {
	// Client is the authenticated client; zero where clients need not authenticate.
	Client   Principal
	Identity *checkpb.Identity
	// OwnSession says that the request names its session, or an answer of it.
	OwnSession bool
	// SessionName is the session's name as the client sends it; "" if it sends none. It
	// stays in the gateway.
	SessionName string
	Descriptors *descriptor.Values
}

// Model returns the model of the prompt; "" for none.
func (r *Request) Model() string {
	if r.Prompt == nil {
		return ""
	}
	return r.Prompt.Model
}

// WithoutHistory returns the request without the messages of its prompt.
func (r *Request) WithoutHistory() *Request {
	left := *r
	left.Prompt = r.Prompt.WithoutHistory()
	return &left
}

// Forwarded returns the request without body and history, which are not needed once the
// answer has begun.
func (r *Request) Forwarded() *Request {
	left := *r
	left.Body, left.Prompt = nil, r.Prompt.Form()
	return &left
}

// AsksPrompt reports whether the request has a prompt, or may have one: a body that can't be
// inspected counts by its bytes.
func (r *Request) AsksPrompt() bool { return r.Prompt != nil || r.Uninspected != "" }

// ShowsTools reports whether the prompt is of an agent that has tools.
func (r *Request) ShowsTools() bool { return r.Prompt.Delta || r.Prompt.Transcript.HasTools() }

// MaxID bounds the ids of requests, in bytes.
const MaxID = 128

// ID returns the id under which a request was checked, else the client's own, else a new
// one.
func ID(h http.Header) string {
	for _, name := range []string{client.HeaderCheck, "X-Request-Id"} {
		if id := h.Get(name); id != "" && len(id) <= MaxID {
			return strings.ToValidUTF8(id, "")
		}
	}
	return nuid.Next()
}

// AsksModel reports whether the request asks a model for text, and so costs tokens: a
// prompt, or a path that an upstream names as such.
func (r *Request) AsksModel() bool {
	path := strings.TrimRight(r.Path, "/")
	return r.AsksPrompt() || r.Method == http.MethodPost &&
		slices.ContainsFunc(formats.Upstreams, func(u *provider.Upstream) bool { return u.Costs != nil && u.Costs(path) })
}
