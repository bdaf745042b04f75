package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/intake"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/formats"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
)

// Paths of the gateway's own API.
const (
	checkPath = route.Reserved + "v1/check"
	pingPath  = route.Reserved + "v1/ping"
	mcpPath   = route.Reserved + "mcp"
)

// envelope is how much longer a check may be than the largest body that is
// inspected, in bytes.
const envelope = 64 << 10

// own answers Unloop's own API.
func (g *Gateway) own(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == checkPath && r.Method == http.MethodPost:
		g.answerCheck(w, r)
	case r.URL.Path == checkPath:
		w.Header().Set("Allow", http.MethodPost)
		respond.Error(w, &client.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "a check is a POST"})
	case r.URL.Path == mcpPath:
		g.answerMCP(w, r)
	case r.URL.Path == pingPath:
		g.answerPing(w, r)
	default:
		respond.Error(w, &client.Error{Status: http.StatusNotFound, Code: "unknown_path", Message: "Unloop's own API has POST " + checkPath + ", GET " + pingPath + " and MCP at " + mcpPath})
	}
}

// answerPing says what this is, and proves whose it is to who asks for that.
func (g *Gateway) answerPing(w http.ResponseWriter, r *http.Request) {
	says := map[string]any{"product": "unloop", "service": "gateway", "ready": g.ready.Err() == nil}
	if challenge := r.URL.Query().Get("challenge"); challenge != "" {
		var address string
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			address = at.String()
		}
		says["proof"] = access.Proof(g.cfg.ProofKey, challenge, address)
	}
	respond.JSON(w, http.StatusOK, says)
}

// answerCheck tells what would be done with a request, and counts it, unless
// it is only peeked at.
func (g *Gateway) answerCheck(w http.ResponseWriter, r *http.Request) {
	if refusal := g.gate.Known(r); refusal != nil {
		g.refuse(w, g.newExchange(r, route.Target{Format: route.Chat}), *refusal)
		return
	}
	x, err := g.asked(r)
	if err != nil {
		respond.Error(w, err)
		return
	}
	if !g.admit(w, x) {
		return
	}
	if x.Run != nil {
		g.answerRun(w, x)
		return
	}
	g.parse(x)
	g.identify(x)
	if g.override(x); x.operator.Stops() {
		respond.JSON(w, http.StatusOK, client.Decision{
			Action: checkpb.Action_ACTION_REJECT.Label(), Reason: client.ReasonKilled, Message: x.operator.Message(),
			RequestID: requestID(x.r), Findings: []client.Finding{},
		})
		return
	}
	if x.operator.Exempt == "" {
		g.judge(x)
		g.memory.Answered(&x.Evidence) // the request itself goes past this gateway, or follows
	}
	g.decide(x)
	if errors.Is(r.Context().Err(), context.Canceled) {
		g.giveBack(x)
		return // nobody is there to be told
	}
	x.out.Headers.Put(w.Header())
	d := x.out.Decision(requestID(x.r))
	if checkpb.ActionOf(d.Action).Stops() {
		g.giveBack(x)
	}
	respond.JSON(w, http.StatusOK, d)
}

// asked reads a check, and makes of it the exchange that the request itself
// would be.
func (g *Gateway) asked(r *http.Request) (*exchange, *client.Error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, g.cfg.MaxInspectBytes+envelope+1))
	if errors.Is(err, intake.ErrNoRoom) {
		r := intake.Refusal(err)
		return nil, &client.Error{Status: r.Status, Code: r.Code, Message: r.Message}
	}
	if err != nil {
		return nil, &client.Error{Status: http.StatusBadRequest, Code: "incomplete_body", Message: "the check's body ended early"}
	}
	if int64(len(text)) > g.cfg.MaxInspectBytes+envelope {
		return nil, tooLarge(g.cfg.MaxInspectBytes)
	}
	q, fault := readQuestion(text)
	if fault != nil {
		return nil, fault
	}
	return g.about(r, q)
}

// about makes the exchange that a question is about.
func (g *Gateway) about(r *http.Request, q *question) (*exchange, *client.Error) {
	q.session = cmp.Or(q.session, r.Header.Get("X-Session-Id"))
	if fault := q.complete(); fault != nil {
		return nil, fault
	}
	if int64(len(q.body)) > g.cfg.MaxInspectBytes {
		return nil, tooLarge(g.cfg.MaxInspectBytes)
	}
	r = q.request(r)
	target, _ := g.table.Route(r) // what goes nowhere can be checked, too
	if format, known := formats.ByName(q.format); known {
		target.Format = format
	}
	x := g.newExchange(r, target)
	x.Body, x.Asked, x.Peek = &request.Body{Bytes: q.body, Length: int64(len(q.body))}, !q.peek, q.peek
	if asked(&q.run) {
		x.Run, x.Prompt = &q.run, &provider.Prompt{Model: q.model, User: q.user}
	}
	return x, nil
}

func tooLarge(limit int64) *client.Error {
	return &client.Error{
		Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Field: "body",
		Message: "body: larger than the " + strconv.FormatInt(limit, 10) + " bytes of --max-inspect-bytes",
	}
}
