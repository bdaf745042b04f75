// Package beside answers other gateways that ask about their own requests. It turns a
// question in the caller's own format into a check, and the decision into an answer that the
// caller obeys. Each caller has a file, and a line in callers.
//
// It does not know how a decision is made: package checkapi asks for it.
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

// Path is the prefix of callers' paths. The caller's name follows, and whatever the caller
// appends.
const Path = route.Reserved + "v1/beside/"

// caller is a gateway that asks.
type caller interface {
	// ask returns the subject of the question, a client.Request or client.ToolCall; nil for
	// one that is never stopped, such as an answer. The error says what is wrong with the
	// question.
	ask(r *http.Request, body []byte) (any, error)
	// answer writes the decision; the zero verdict lets the request pass.
	answer(w http.ResponseWriter, body []byte, v verdict)
	// refuse writes the reason for which there is no decision.
	refuse(w http.ResponseWriter, r *http.Request, fault *client.Error)
}

// callers are the gateways that describe a request in a format of their own, by name.
var callers = map[string]caller{
	"litellm": liteLLM{}, "portkey": portkey{}, "agentgateway": agentGateway{}, "anthropic": anthropicHooks{}, "docker": dockerMCP{}, "nginx": nginx{},
}

// forwarders are the gateways that send the client's request itself, with its path and method
// in headers.
var forwarders = []string{"traefik", "kong", "bifrost", envoy}

// envoy is Envoy's external authorization over HTTP, which appends the path of the request to
// the address that it asks.
const envoy = "envoy"

// verdict is a decision as answers express it.
type verdict struct {
	// stops is set if the request must not be sent. message is the reason, or a hint for the
	// model; "" for neither.
	stops   bool
	message string
	// ends is set if the whole run is to end.
	ends   bool
	loopID string
	// tool is the tool whose calls loop; "" if it is not known.
	tool       string
	retryAfter int
}

// Handler answers all callers. Make it with New.
type Handler struct {
	api *checkapi.API
	// decide answers whether a request may be sent.
	decide http.HandlerFunc
	// signed verifies the requests of signer; nil without its secret.
	signed *standardwebhooks.Webhook
}

// New returns a handler. secrets has the places (env:VARIABLE or file:PATH) of the secrets of
// callers that sign their requests, by caller.
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

// verdictOf returns the verdict of a client.Decision or client.ToolDecision.
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

// forwarded answers one of the forwarders.
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

// refuseAs refuses a question in a provider's error format.
func refuseAs(w http.ResponseWriter, r *http.Request, p provider.Provider, fault *client.Error) {
	respond.Refuse(w, r, p, provider.Refusal{Status: fault.Status, Code: fault.Code, Message: fault.Message})
}

// expected returns how long Envoy waits for an answer, according to a header of its router; 0
// if unknown.
func expected(h http.Header) time.Duration {
	ms, err := strconv.ParseUint(h.Get("X-Envoy-Expected-Rq-Timeout-Ms"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Within returns a context that ends while the caller still waits for an answer: when nine
// tenths of the time until its deadline or limit have passed. A limit of 0 is none.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if at, has := ctx.Deadline(); has && (limit == 0 || time.Until(at) < limit) {
		limit = time.Until(at)
	}
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit-limit/10)
}

// short truncates a text to max characters.
func short(text string, max int) string {
	runes := []rune(text)
	if len(runes) <= max {
		return text
	}
	return string(runes[:max-1]) + "…"
}

// errEmpty is the error for a question that has nothing to check.
var errEmpty = errors.New("the request has no messages")
