package gateway

import (
	"context"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/answers"
	"github.com/unloop/unloop/gateway/internal/answerscan"
	"github.com/unloop/unloop/gateway/internal/descriptor"
	"github.com/unloop/unloop/gateway/internal/resolve"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/checkpb"
)

// answerSessions remembers which session an answer belongs to, and which calls are
// to be answered after it. Session and Calls return answers.ErrUnknown for an answer
// that they do not know.
type answerSessions interface {
	Session(ctx context.Context, caller, id string) (string, error)
	Put(ctx context.Context, caller, id, session string) error
	Calls(ctx context.Context, caller, id string, changes bool) ([]*checkpb.ToolCall, error)
	PutCalls(ctx context.Context, caller, id string, calls []*checkpb.ToolCall) error
	PutCallsAt(ctx context.Context, key string, calls []*checkpb.ToolCall) error
	Asker(ctx context.Context, caller, id string) (*checkpb.AnswerAsker, error)
	PutAsker(ctx context.Context, caller, id string, asker *checkpb.AnswerAsker) error
	Finish(ctx context.Context, caller, id string) (first bool, err error)
}

// identify finds out who sent the request.
func (g *Gateway) identify(x *exchange) {
	x.Subject = g.resolver.Subject(x.r, &x.Request, resolve.Sender{Client: x.Client, Key: g.callerKey(x), Hasher: g.shared.Hasher()}, g.now())
	x.Descriptors = x.rules.Descriptors.Values(descriptor.Subject{HTTP: x.r, Identity: x.Identity, Model: x.Model()})
}

// followAnswer returns the watchers that remember the session of an answer, and the calls
// that it asks for, where a policy evaluates calls: a stored prompt may offer tools of
// which the request says nothing. They also find an error in an answer of status 200.
func (g *Gateway) followAnswer(x *exchange, res *http.Response) []answerscan.Watcher {
	if res.StatusCode != http.StatusOK || !x.Target.Format.Prompt() {
		return g.followFetched(x, res)
	}
	failed := func() { g.failed(x) }
	switch {
	case x.Target.Format == route.Responses && x.Identity.GetSession() != "":
		return []answerscan.Watcher{answers.Follow(x.toolsWatched, g.watchAnswer(x, failed))}
	case answerscan.IsStream(res.Header), x.Target.Format == route.Responses, x.Target.Format == route.Generate:
		return []answerscan.Watcher{answers.Failures(failed)}
	}
	return nil
}

// failed takes back what a request was counted and charged for: its answer began
// with status 200, and is an error.
func (g *Gateway) failed(x *exchange) {
	x.status = http.StatusBadGateway
	g.uncount(x)
	g.giveBack(x)
}

// uncount tells the detectors, once, that a counted request came to nothing.
func (g *Gateway) uncount(x *exchange) {
	if x.counted {
		x.counted = false
		g.checker.Outcome(x.Check, x.aborted())
	}
}

// aborted says that the client left while an answer came that was no error.
func (x *exchange) aborted() bool {
	return x.status > 0 && x.status < http.StatusBadRequest && x.r.Context().Err() != nil
}
