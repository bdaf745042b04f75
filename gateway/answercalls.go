package gateway

import (
	"bytes"
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/answers"
	"github.com/unloop/unloop/gateway/internal/answerscan"
	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/responses"
	"github.com/unloop/unloop/gateway/internal/route"
	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	// maxOpenCalls and maxToolName bound what is kept of one answer. No provider
	// takes longer names of tools.
	maxOpenCalls = 256
	maxToolName  = 128
)

// precede completes the prompt by the calls that the provider keeps, where a policy
// looks at tool calls.
func (g *Gateway) precede(x *exchange, matched []*bundle.Policy) {
	x.toolsWatched = x.Prompt != nil && slices.ContainsFunc(matched, func(p *bundle.Policy) bool { return p.Tool != nil || p.Cycle != nil || p.Prompt != nil })
	if x.toolsWatched {
		x.Prompt, x.Open = g.resolver.Calls(x.r.Context(), &x.Request, x.Identity.GetCaller(), x.rules.Options(x.Path))
	}
}

// answerWatch remembers what is to be known of an answer. It implements
// answers.Watcher.
type answerWatch struct {
	g     *Gateway
	asker *checkpb.AnswerAsker
	// session is the answer's; "" if it is known already.
	session string
	// fetcher is the caller that fetches the answer later; "" if it comes at once.
	fetcher string
	id      string
	calls   []*checkpb.ToolCall
	// items are the ids of the calls' items, by the id of the call.
	items map[string]string
	// failed is called if the answer is an error.
	failed func()
}

// watchAnswer returns what watches the answer to a prompt.
func (g *Gateway) watchAnswer(x *exchange, failed func()) *answerWatch {
	a := &answerWatch{g: g, session: x.Identity.GetSession(), failed: failed, asker: &checkpb.AnswerAsker{Caller: x.Identity.GetCaller()}}
	if x.Prompt == nil { // it could not be read
		return a
	}
	a.asker.Open, a.asker.Referable = evidence.WireCalls(x.Open), x.Prompt.Referable
	if id := x.Prompt.Conversation; id != "" {
		a.asker.Conversation = answers.Key(a.asker.GetCaller(), id)
	}
	reserved := x.reserved()
	if hasher := g.shared.Hasher(); hasher != nil && x.Prompt.Background && (x.toolsWatched || len(reserved) > 0) {
		fetcher, _ := hasher.Identify(x.r, g.callerKey(x), "", nil)
		a.fetcher, x.later = fetcher.GetCaller(), a
		a.asker.Reserved, a.asker.ReservedAt = reservations(reserved), x.At.UnixMilli()
	}
	return a
}

// followFetched returns the watchers of an answer that was asked for before and is fetched
// now: they remember its calls, and correct its reservations.
func (g *Gateway) followFetched(x *exchange, res *http.Response) []answerscan.Watcher {
	id := fetchedID(x)
	if id == "" || res.StatusCode != http.StatusOK {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), g.cfg.CheckTimeout)
	defer cancel()
	asker, err := g.answers.Asker(ctx, x.Identity.GetCaller(), id)
	if err != nil {
		return nil
	}
	a := &answerWatch{g: g, asker: asker, failed: func() {}, fetcher: x.Identity.GetCaller()}
	return append([]answerscan.Watcher{answers.Follow(true, a)}, a.settleFetched(id)...)
}

// fetchedID is the id of the answer that a request fetches: GET …/responses/ID.
func fetchedID(x *exchange) string {
	if x.Method != http.MethodGet || x.Target.Format != route.HTTP {
		return ""
	}
	dir, id := path.Split(x.Path)
	if !strings.HasSuffix(dir, "/responses/") {
		return ""
	}
	return id
}

// Failed takes the answer for none.
func (a *answerWatch) Failed() { a.failed() }

// ID remembers the answer's session, and who asked for it.
func (a *answerWatch) ID(id string) {
	a.id = id
	if a.session != "" {
		a.remember(func(ctx context.Context) error { return a.g.answers.Put(ctx, a.asker.GetCaller(), id, a.session) })
	}
	if a.fetcher != "" {
		a.remember(func(ctx context.Context) error { return a.g.answers.PutAsker(ctx, a.fetcher, id, a.asker) })
	}
}

// Item takes a call; a later one of the same id is the same, and complete.
func (a *answerWatch) Item(json []byte) {
	call, item, ok := responses.Called(json)
	if !ok || len(call.Tool) > maxToolName {
		return
	}
	wire := evidence.WireCalls([]provider.ToolCall{call})[0]
	a.calls = slices.DeleteFunc(a.calls, func(c *checkpb.ToolCall) bool { return bytes.Equal(c.GetId(), wire.GetId()) })
	if len(a.calls) < maxOpenCalls {
		a.calls = append(a.calls, wire)
		a.name(item, wire)
	}
}

// Whole remembers the answer's calls with those that were open before.
func (a *answerWatch) Whole() {
	a.putItems()
	calls := append(slices.Clone(a.asker.GetOpen()), a.calls...)
	calls = calls[max(0, len(calls)-maxOpenCalls):]
	if len(calls) == 0 {
		return
	}
	if a.id != "" {
		a.remember(func(ctx context.Context) error { return a.g.answers.PutCalls(ctx, a.asker.GetCaller(), a.id, calls) })
	}
	if key := a.asker.GetConversation(); key != "" {
		a.remember(func(ctx context.Context) error { return a.g.answers.PutCallsAt(ctx, key, calls) })
	}
}

// remember has the store remember something. It does not end with the request: the
// client may be gone, and go on from the answer later.
func (a *answerWatch) remember(put func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.g.cfg.CheckTimeout)
	defer cancel()
	if err := put(ctx); err != nil {
		a.g.metrics.lostAnswers.Inc()
	}
}
