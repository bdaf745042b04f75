package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/request"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/client"
)

// asked says whether the question is one about tool calls.
func asked(t *request.ToolRun) bool {
	return t.Tool != "" || t.Explain || t.Arguments != nil || t.Done || t.Failed != nil
}

// field reads one field of a question.
func setRunField(t *request.ToolRun, w *jsonwalk.Walker, name string) (err error) {
	switch name {
	case "arguments":
		t.Arguments, err = readText(w)
	case "result":
		t.Done = true
		t.Result, err = readText(w)
	case "is_error":
		var failed bool
		failed, err = readBool(w)
		t.Failed = &failed
	case "explain":
		t.Explain, err = readBool(w)
	}
	return err
}

// readText is a string's content, or any other value's JSON.
func readText(w *jsonwalk.Walker) ([]byte, error) {
	if w.Kind() == '"' {
		s, err := w.String()
		return []byte(s), err
	}
	return w.Raw()
}

// completeRun is complete for questions about tool calls.
func (q *question) completeRun() *client.Error {
	t := &q.run
	switch {
	case q.hasBody || q.hasPrompt || q.hasMessages || q.format != "" || q.method != "":
		return invalid("tool", "tool: a question about tool calls can't have body, prompt, messages, format or method")
	case q.session == "":
		return invalid("session", "session: name the session whose calls are counted together")
	case t.Explain && (t.Tool != "" || t.Arguments != nil || t.Done || t.Failed != nil):
		return invalid("explain", "explain: asks about the session, without a call")
	case !t.Explain && t.Tool == "":
		return invalid("tool", "tool: name the tool that is called")
	case t.Failed != nil && !t.Done:
		return invalid("is_error", "is_error: stands beside result")
	}
	if q.path == "" {
		q.path = usualPaths[route.Chat]
	}
	return q.check()
}

// answerRun answers a question about tool calls.
func (g *Gateway) answerRun(w http.ResponseWriter, x *exchange) {
	d := g.decideRun(x)
	if errors.Is(x.r.Context().Err(), context.Canceled) {
		return // nobody is there to be told
	}
	x.out.Headers.Put(w.Header())
	respond.JSON(w, http.StatusOK, d)
}

// decideRun says what is to be done about a tool's call.
func (g *Gateway) decideRun(x *exchange) client.ToolDecision {
	g.identify(x)
	if g.override(x); x.operator.Stops() {
		return client.ToolDecision{
			Action: client.ActionBlock, Reason: client.ReasonKilled, Message: x.operator.Message(), RequestID: requestID(x.r), Findings: []client.Finding{},
		}
	}
	if x.operator.Exempt == "" {
		g.judge(x)
	}
	g.decide(x)
	return x.out.ToolDecision(requestID(x.r))
}
