// Package checkapi is Unloop's own HTTP API: checks of requests and tool calls that a
// client describes instead of sending them, the same as MCP tools, and a ping.
//
// It reads descriptions and writes decisions. It does not know how a decision is made: its
// Decider does.
package checkapi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
)

// Paths of the API.
const (
	CheckPath = route.Reserved + "v1/check"
	pingPath  = route.Reserved + "v1/ping"
	mcpPath   = route.Reserved + "mcp"
)

// Described is a request that a client describes.
type Described struct {
	// HTTP is the described request, with the headers of the check.
	HTTP *http.Request
	*request.Request
	// Client sent the check; it is set after authentication.
	Client request.Principal
}

// Decider decides about described requests.
type Decider interface {
	// Turn waits until a text of n bytes may be read, and returns the function that ends the
	// turn.
	Turn(r *http.Request, n int) (give func(), fault *client.Error)
	// Check returns the decision about a request, and adds its headers to h.
	Check(h http.Header, d *Described) client.Decision
	// CheckRun is Check for a tool call.
	CheckRun(h http.Header, d *Described) client.ToolDecision
}

// Config is what an API is made of.
type Config struct {
	Reader  Reader
	Gate    *admit.Gate
	Decider Decider
	// Ready returns the reason for which the gateway is not ready; nil if it is.
	Ready func() error
	// ProofKey proves in the answer to a ping that this user runs the gateway; "" for no
	// proof.
	ProofKey string
}

// API answers the requests under route.Reserved. Make it with New.
type API struct {
	cfg Config
	mcp http.Handler
}

// New returns an API.
func New(cfg Config) *API {
	a := &API{cfg: cfg}
	a.mcp = a.newMCP()
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == CheckPath && r.Method == http.MethodPost:
		a.check(w, r)
	case r.URL.Path == CheckPath:
		w.Header().Set("Allow", http.MethodPost)
		respond.Error(w, &client.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "a check is a POST"})
	case r.URL.Path == mcpPath:
		a.answerMCP(w, r)
	case r.URL.Path == pingPath:
		a.ping(w, r)
	default:
		respond.Error(w, &client.Error{Status: http.StatusNotFound, Code: "unknown_path", Message: "Unloop's own API has POST " + CheckPath + ", GET " + pingPath + " and MCP at " + mcpPath})
	}
}

// ping describes the service. The answer to a challenge proves which user runs it.
func (a *API) ping(w http.ResponseWriter, r *http.Request) {
	says := map[string]any{"product": "unloop", "service": "gateway", "ready": a.cfg.Ready() == nil}
	if challenge := r.URL.Query().Get("challenge"); challenge != "" {
		var address string
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			address = at.String()
		}
		says["proof"] = access.Proof(a.cfg.ProofKey, challenge, address)
	}
	respond.JSON(w, http.StatusOK, says)
}

// check answers a check. The body is read only if the client has a key for some upstream:
// which one the request is for depends on the body.
func (a *API) check(w http.ResponseWriter, r *http.Request) {
	if refusal := a.cfg.Gate.Known(r); refusal != nil {
		respond.Refuse(w, r, chat.Format, *refusal)
		return
	}
	d, fault := a.read(r)
	if fault != nil {
		respond.Error(w, fault)
		return
	}
	if !a.admit(w, d) {
		return
	}
	decision := a.decide(w.Header(), d)
	if !errors.Is(r.Context().Err(), context.Canceled) { // the client is still there
		respond.JSON(w, http.StatusOK, decision)
	}
}

// read reads a check in its turn.
func (a *API) read(r *http.Request) (*Described, *client.Error) {
	text, fault := a.cfg.Reader.Text(r)
	if fault != nil {
		return nil, fault
	}
	give, fault := a.Turn(r, len(text))
	if fault != nil {
		return nil, fault
	}
	defer give()
	return a.cfg.Reader.parse(r, text)
}

// Turn waits until a question of n bytes may be read, and returns the function that ends the
// turn.
func (a *API) Turn(r *http.Request, n int) (give func(), fault *client.Error) {
	return a.cfg.Decider.Turn(r, n)
}

// decide returns a client.Decision, or a client.ToolDecision about a tool call.
func (a *API) decide(h http.Header, d *Described) any {
	if d.Run != nil {
		return a.cfg.Decider.CheckRun(h, d)
	}
	return a.cfg.Decider.Check(h, d)
}

// Text reads the body of another gateway's request if its client has a key for some upstream.
func (a *API) Text(r *http.Request) ([]byte, *client.Error) {
	if refusal := a.cfg.Gate.Known(r); refusal != nil {
		return nil, &client.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message}
	}
	return a.cfg.Reader.Text(r)
}

// SignedText is Text for a request that is signed instead; the caller verifies the signature.
func (a *API) SignedText(r *http.Request) ([]byte, *client.Error) { return a.cfg.Reader.Text(r) }

// Ask decides about a check, a client.Request or client.ToolCall, for another gateway's
// request r. signer is the verified signer of r; "" if it needs a key. Ask returns a
// client.Decision or client.ToolDecision, and adds its headers to h.
func (a *API) Ask(h http.Header, r *http.Request, signer string, check any) (any, *client.Error) {
	d, fault := a.described(r, check)
	if fault != nil {
		return nil, fault
	}
	if signer != "" {
		d.Client = request.Principal{ID: "signed by " + signer}
		return a.decide(h, d), nil
	}
	who, refusal := a.cfg.Gate.Client(d.HTTP, d.Request)
	if refusal != nil {
		return nil, &client.Error{Status: refusal.Status, Code: refusal.Code, Message: refusal.Message}
	}
	d.Client = who
	return a.decide(h, d), nil
}

// described returns the request that a check describes, in its turn.
func (a *API) described(r *http.Request, check any) (*Described, *client.Error) {
	give, fault := a.Turn(r, size(check))
	if fault != nil {
		return nil, fault
	}
	defer give()
	text, err := json.Marshal(check)
	if err != nil {
		return nil, invalid("", "the request: %v", err)
	}
	return a.cfg.Reader.parse(r, text)
}

// size returns the size of the texts of a check in bytes.
func size(check any) int {
	switch c := check.(type) {
	case client.Request:
		return len(c.Body) + len(c.Messages) + len(c.Prompt)
	case client.ToolCall:
		return len(c.Arguments) + len(c.Result)
	default:
		return 0
	}
}

// admit sets the client of a described request, or refuses it.
func (a *API) admit(w http.ResponseWriter, d *Described) bool {
	client, refusal := a.cfg.Gate.Client(d.HTTP, d.Request)
	if refusal != nil {
		respond.Refuse(w, d.HTTP, d.Provider, *refusal)
		return false
	}
	d.Client = client
	return true
}
