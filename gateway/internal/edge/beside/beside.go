// Package beside answers other gateways that ask about their own requests, each in its own
// form: what it asks becomes a check, and the decision becomes the answer that it obeys. A
// caller has a file with its form, and a line in callers.
//
// It may not know how a decision is made: package checkapi asks for it.
package beside

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
)

// Path is the prefix of the paths at which callers ask. Behind it is the caller's name, and
// whatever the caller adds.
const Path = route.Reserved + "v1/beside/"

// caller is a gateway that asks.
type caller interface {
	// ask returns what is asked about, a client.Request or client.ToolCall, and nil for what
	// is never stopped, such as an answer. An error names what is wrong with the question.
	ask(r *http.Request, body []byte) (any, error)
	// answer writes the decision; the zero verdict lets the request pass.
	answer(w http.ResponseWriter, body []byte, v verdict)
	// refuse writes why a question is not answered.
	refuse(w http.ResponseWriter, r *http.Request, fault *client.Error)
}

// callers are those that send what they ask about, by their names.
var callers = map[string]caller{
	"litellm": liteLLM{}, "portkey": portkey{}, "agentgateway": agentGateway{}, "anthropic": anthropicHooks{}, "docker": dockerMCP{}, "nginx": nginx{},
}

// forwarders pass a request on as it is, with its path and method in headers.
var forwarders = []string{"traefik", "kong", "bifrost", envoy}

// envoy is Envoy's external authorization over HTTP, which sends the request with its path
// behind the address that is asked.
const envoy = "envoy"

// verdict is a decision in the words of an answer.
type verdict struct {
	// stops says that the request must not be sent. message says why, or is the hint for the
	// model; "" for neither.
	stops   bool
	message string
	// ends says that the whole run is to end.
	ends   bool
	loopID string
	// tool is the tool whose calls go in circles; "" if it is not known.
	tool       string
	retryAfter int
}

// Handler answers all callers. Make it with New.
type Handler struct {
	api *checkapi.API
	// decide answers whether a request may be sent.
	decide http.HandlerFunc
	// signed verifies what signer asks; nil without its secret.
	signed *standardwebhooks.Webhook
}

// New returns a handler. The secrets verify the requests of the callers that sign them: the
// places where they are (env:VARIABLE or file:PATH), by the callers' names.
func New(api *checkapi.API, decide http.HandlerFunc, secrets map[string]string) (*Handler, error) {
	h := &Handler{api: api, decide: decide}
	for name, place := range secrets {
		if name != signer {
			return nil, fmt.Errorf("--beside-secret %s: only %s signs what it asks", name, signer)
		}
		secret, err := access.Secret(place)
		if err == nil {
			h.signed, err = standardwebhooks.NewWebhook(secret)
		}
		if err != nil {
			return nil, fmt.Errorf("--beside-secret %s: %w", name, err)
		}
	}
	return h, nil
}

// ServeHTTP answers one question.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Path), "/")
	ctx, cancel := Within(r.Context(), expected(r.Header))
	defer cancel()
	c, known := callers[name]
	switch {
	case known:
		h.serve(w, r.WithContext(ctx), name, c)
	case slices.Contains(forwarders, name):
		h.forwarded(w, r.WithContext(ctx), name)
	default:
		respond.Error(w, &client.Error{Status: http.StatusNotFound, Code: "unknown_path", Message: "behind " + Path + " stands who asks: " + strings.Join(Names(), ", ")})
	}
}

// Names returns the names of all callers.
func Names() []string {
	names := slices.Clone(forwarders)
	for name := range callers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, name string, c caller) {
	body, signer, fault := h.read(r, name)
	if fault != nil {
		c.refuse(w, r, fault)
		return
	}
	give, fault := h.api.Turn(r, len(body))
	if fault != nil {
		c.refuse(w, r, fault)
		return
	}
	check, err := c.ask(r, body)
	give()
	if err != nil {
		c.refuse(w, r, &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: name + ": " + err.Error()})
		return
	}
	var v verdict
	if check != nil {
		decision, fault := h.api.Ask(w.Header(), r, signer, check)
		if fault != nil {
			c.refuse(w, r, fault)
			return
		}
		v = verdictOf(decision)
	}
	h.answer(w, r, c, body, v)
}

// verdictOf returns a decision in the words of an answer.
func verdictOf(decision any) (v verdict) {
	var findings []client.Finding
	switch d := decision.(type) {
	case client.Decision:
		v = verdict{stops: !d.Allowed(), ends: d.Action == client.ActionBreak, message: d.Message, loopID: d.LoopID, retryAfter: d.RetryAfterSeconds}
		if !v.stops && d.Action != client.ActionHint {
			v.message = ""
		}
		findings = d.Findings
	case client.ToolDecision:
		v = verdict{stops: !d.Allowed(), message: d.Message, loopID: d.LoopID}
		findings = d.Findings
	}
	if len(findings) > 0 && !findings[0].Shadow {
		v.tool = findings[0].Tool
	}
	return v
}

// forwarded answers a caller that sends the client's own request, with its path and method in
// headers, or in Envoy's place.
func (h *Handler) forwarded(w http.ResponseWriter, r *http.Request, name string) {
	asked := r.Clone(r.Context())
	for from, to := range map[string]string{"X-Forwarded-Method": "X-Original-Method", "X-Forwarded-Uri": "X-Original-URI", "X-Forwarded-Host": "X-Original-Host"} {
		if value := r.Header.Get(from); value != "" && name != envoy {
			asked.Header.Set(to, value)
		}
	}
	switch {
	case name == envoy:
		asked.Header.Set("X-Original-URI", strings.TrimPrefix(r.URL.RequestURI(), Path+name))
	case r.Header.Get("X-Forwarded-Method") == "":
		asked.Method = http.MethodPost
	}
	if asked.Header.Get("X-Original-URI") == "" {
		refuseAs(w, r, plain.Plain{}, &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: name + ": X-Forwarded-Uri must have the path of the request"})
		return
	}
	original, err := checkapi.Original(asked)
	if err != nil {
		refuseAs(w, r, plain.Plain{}, &client.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: name + ": " + err.Error()})
		return
	}
	h.decide(w, original)
}

// refuseAs refuses a question in the shape of a provider's errors.
func refuseAs(w http.ResponseWriter, r *http.Request, p provider.Provider, fault *client.Error) {
	respond.Refuse(w, r, p, provider.Refusal{Status: fault.Status, Code: fault.Code, Message: fault.Message})
}

// expected returns how long Envoy waits for an answer, as its router tells those behind it; 0
// if that is not known.
func expected(h http.Header) time.Duration {
	ms, err := strconv.ParseUint(h.Get("X-Envoy-Expected-Rq-Timeout-Ms"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Within returns a context that ends early enough for a caller to hear an answer: a tenth of the
// time before its own end, or before the limit is over. 0 is no limit.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if at, has := ctx.Deadline(); has && (limit == 0 || time.Until(at) < limit) {
		limit = time.Until(at)
	}
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit-limit/10)
}

// short returns the beginning of a text, of at most max characters.
func short(text string, max int) string {
	runes := []rune(text)
	if len(runes) <= max {
		return text
	}
	return string(runes[:max-1]) + "…"
}

// errEmpty is the error for a question without what is to be checked.
var errEmpty = errors.New("the request has no messages")
