package gateway

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/forward"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/rpc"
	"github.com/unloop/unloop/gateway/internal/edge/spans"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
)

// forward sends a request to its upstream, or through onward if there is one, and the answer
// to the client.
func (g *Gateway) forward(w http.ResponseWriter, a *account.Account, out outcome.Outcome, onward rpc.Onward) {
	req := a.Request
	body, err := g.edit(a, &out)
	switch {
	case err == nil:
	case a.HTTP.Context().Err() != nil:
		g.abandon(w, a)
		return
	default:
		a.Uncount()
		g.respond(w, a, out.Busy())
		return
	}
	g.count(req, out.Label)
	if hasher := g.shared.Hasher(); hasher != nil && req.Prompt != nil && req.Prompt.Background {
		a.Fetcher = hasher.Caller(g.stages.Gate.CallerKey(a.HTTP, req, a.Subject.Client), "")
	}
	observer := &forwarded{g: g, a: a, headers: out.Headers, span: noop.Span{}}
	if onward != nil {
		observer.goOn(body, onward)
		return
	}
	to := forward.Request{Target: req.Target, Body: body, Readable: a.Reads(), Observer: observer}
	if g.deps.Traces != nil {
		to.Trace, observer.span = spans.Upstream(g.deps.Traces, a)
		defer spans.End(observer.span, a)
	}
	g.proxy.Forward(w, a.HTTP, to)
}

// edit returns the body of a request with its repair and hint. It fails if there is no memory
// or no slot in time.
func (g *Gateway) edit(a *account.Account, out *outcome.Outcome) (*request.Body, error) {
	req := a.Request
	text, position := out.Hint(g.now())
	repair := a.Evidence.Repair && req.Prompt != nil
	if !repair && text == "" {
		return req.Body, nil
	}
	upload, n := intake.Held(a.HTTP), len(req.Body.Bytes)
	copies := 1
	if repair && text != "" {
		copies = 2
	}
	if err := upload.Take(copies * n); err != nil {
		return nil, err
	}
	slot, err := g.limiter.Take(a.HTTP.Context(), req.Caller, stages.Large(req))
	if err != nil {
		return nil, err
	}
	defer slot.Give()
	body := req.Body
	if repair {
		var changes string
		if body, changes = g.proxy.Repair(req, a.Subject.Identity.GetSession()); changes != "" {
			out.Headers.Set("X-Loop-Repaired", changes)
		}
	}
	if text != "" {
		hinted := g.proxy.Hint(req, body, text, position, out.Finding)
		if hinted == body { // no place for the hint, now or later
			out.Headers.Set("X-Loop-Action", checkpb.Action_ACTION_WARN.Label())
			a.Excused, a.Answered = nil, nil
		}
		body = hinted
	}
	if body != req.Body {
		copies--
	}
	upload.Give(copies * n)
	return body, nil
}

// forwarded observes the forwarding of a request.
type forwarded struct {
	g       *Gateway
	a       *account.Account
	headers outcome.Headers
	// span is that of the upstream's answer.
	span trace.Span
}

// Answered adds Unloop's headers to the upstream's answer before the client gets it.
func (f *forwarded) Answered(res *http.Response) {
	r := f.a.HTTP
	intake.Hurry(r)
	f.g.stages.Gate.OwnPages(r, res.Header)
	for name := range res.Header {
		if strings.HasPrefix(name, "X-Loop-") { // only Unloop may set these
			res.Header.Del(name)
		}
	}
	f.headers.Put(res.Header)
	f.a.Answer(res)
	spans.Status(f.span, res.StatusCode, res.StatusCode >= http.StatusBadRequest)
}

// Sent frees the memory of the body after it was sent.
func (f *forwarded) Sent() { intake.Held(f.a.HTTP).Free() }

// Failed answers the client if the upstream did not.
func (f *forwarded) Failed(w http.ResponseWriter, err error) {
	g, a := f.g, f.a
	a.Uncount()
	f.span.SetStatus(codes.Error, "no answer")
	switch {
	case intake.Broken(a.HTTP):
		a.GiveBack()
		g.refuse(w, a, intake.Refusal(err))
	case a.HTTP.Context().Err() != nil:
		a.Status = respond.StatusClientLeft
		w.WriteHeader(a.Status)
	default:
		f.headers.Put(w.Header())
		a.GiveBack()
		g.refuse(w, a, g.proxy.Unreachable(a.Request.Target, err))
	}
}

// Broken uncounts a request whose answer broke off.
func (f *forwarded) Broken() {
	f.a.Uncount()
	f.span.SetStatus(codes.Error, "the answer broke off")
}
