package gateway

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"

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
	watchUpload(w, r)
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
	if !g.knock(w, r) {
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
		x.answered() // the request itself goes past this gateway, or follows
	}
	if errors.Is(r.Context().Err(), context.Canceled) {
		g.giveBack(x)
		return // nobody is there to be told
	}
	x.setHeaders(w.Header())
	d := x.verdict()
	if checkpb.ActionOf(d.Action).Stops() {
		g.giveBack(x)
	}
	respond.JSON(w, http.StatusOK, d)
}

// asked reads a check, and makes of it the exchange that the request itself
// would be.
func (g *Gateway) asked(r *http.Request) (*exchange, *client.Error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, g.cfg.MaxInspectBytes+envelope+1))
	if errors.Is(err, errNoRoom) {
		r := incompleteBody(err)
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

// verdict is the decision as the check API tells it.
func (x *exchange) verdict() client.Decision {
	d := client.Decision{
		Action: checkpb.Action_ACTION_ALLOW.Label(), HitCount: x.hits(), Degraded: x.incomplete(),
		RequestID: x.check.GetRequestId(), Findings: x.findings(),
	}
	if d.RequestID == "" { // no policy looks at it
		d.RequestID = requestID(x.r)
	}
	f := strongest(x.decision)
	if x.operator.Exempt != "" {
		d.Reason = client.ReasonExempt
	}
	if f != nil {
		d.Reason = client.ReasonLoop
		d.Action, d.Message, d.LoopID = f.GetAction().Label(), loopMessage(f, x.Identity.GetCaller()), f.GetLoopId()
		d.HitCount, d.DelayMS = int(f.GetHitCount()), int(f.GetDelayMs())
	}
	if rule, ok := x.enforced(false); ok && rule.verdict.GetAction() >= f.GetAction() {
		x.ruledVerdict(&d, rule)
		return d
	}
	switch {
	case f.GetAction().Stops():
		d.RetryAfterSeconds = retryAfter(f, x.Identity.GetCaller())
	case x.degraded != "" && x.failClosed:
		d.Action, d.RetryAfterSeconds = checkpb.Action_ACTION_REJECT.Label(), 1
		d.Reason, d.Message = client.ReasonUnchecked, uncheckedMessage(x.degraded)
	}
	return d
}

// ruledVerdict tells what a rule does, which comes before what a detector does
// of the same strength.
func (x *exchange) ruledVerdict(d *client.Decision, r ruled) {
	d.Action, d.Reason, d.Message = r.verdict.GetAction().Label(), client.ReasonLimited, r.message(r.seconds())
	d.DelayMS = max(d.DelayMS, int(r.verdict.GetDelayMs()))
	if r.verdict.GetAction().Stops() {
		d.RetryAfterSeconds = r.seconds()
	}
}

// hits is the highest count that is not shadow.
func (x *exchange) hits() int {
	most := uint32(0)
	for i, n := range x.decision.GetHitCounts() {
		if counters := x.check.GetCounters(); i < len(counters) && !counters[i].GetShadow() {
			most = max(most, n)
		}
	}
	return int(most)
}

// findings lists what was found, the strongest first and shadow last.
func (x *exchange) findings() []client.Finding {
	found := slices.Clone(x.decision.GetFindings())
	slices.SortStableFunc(found, func(a, b *checkpb.Finding) int {
		switch {
		case a.GetShadow() != b.GetShadow():
			return map[bool]int{false: -1, true: 1}[a.GetShadow()]
		case stronger(a, b):
			return -1
		case stronger(b, a):
			return 1
		}
		return cmp.Compare(a.GetPolicy(), b.GetPolicy())
	})
	out := make([]client.Finding, len(found))
	for i, f := range found {
		out[i] = client.Finding{
			Policy: f.GetPolicy(), Detector: f.GetDetector(), Action: f.GetAction().Label(), Shadow: f.GetShadow(),
			Fingerprint: fingerprintText(f), HitCount: int(f.GetHitCount()), Threshold: int(f.GetThreshold()),
			WindowSeconds: int(f.GetWindowSeconds()), CooldownSeconds: int(f.GetCooldownSeconds()), LoopID: f.GetLoopId(),
			Rule: f.GetRule(), Tool: f.GetTool(), BackoffSeconds: int(f.GetBackoffSeconds()), Message: f.GetMessage(),
		}
	}
	return out
}
