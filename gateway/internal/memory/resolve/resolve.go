// Package resolve determines who sent a request, and, if the provider stores the history,
// which session and tool calls it continues. No other code in a request's path looks up
// stored answers.
//
// It does not know policies, except for what they need of a prompt, or the decision on the
// request.
package resolve

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/kit/metric"
)

const (
	// maxReferences is the maximum number of a request's items that are looked up, the newest.
	maxReferences = 256
	// lookupsAtOnce bounds the concurrent look-ups of one request.
	lookupsAtOnce = 16
)

// Answers has the sessions of answers, and the calls that are open after them. Its methods
// return an error for an unknown answer.
type Answers interface {
	Session(ctx context.Context, caller, id string) (string, error)
	Calls(ctx context.Context, caller, id string, changes bool) ([]*checkpb.ToolCall, error)
}

// Config says how requests are resolved.
type Config struct {
	// Project is the project of requests that name none.
	Project string
	// Timeout bounds the look-ups of one kind for a request.
	Timeout time.Duration
}

// Resolver resolves requests. Make it with New.
type Resolver struct {
	cfg     Config
	answers Answers
	lineage *lineage
	// unknownAnswers and unknownCalls count what was not found.
	unknownAnswers, unknownCalls prometheus.Counter
}

// New returns a resolver. If answers is nil, all answers are unknown.
func New(cfg Config, answers Answers, reg prometheus.Registerer) *Resolver {
	return &Resolver{
		cfg: cfg, answers: answers, lineage: newLineage(),
		unknownAnswers: metric.Counter(reg, "unloop_gateway_unknown_answers_total", "Requests that continue from an answer that no gateway has seen."),
		unknownCalls:   metric.Counter(reg, "unloop_gateway_unknown_calls_total", "Requests with results of calls that no gateway has seen."),
	}
}

// Sender is the sender of a request before its identity is resolved.
type Sender struct {
	Client request.Principal
	// Key identifies the caller: the provider's key, or the client's credential.
	Key string
	// Hasher hashes names; nil until its key is known.
	Hasher *identity.Hasher
}

// Subject returns who sent a request, without descriptors; nobody while there is no hasher.
// A request that names no session but an answer that it continues belongs to the session of
// that answer.
func (v *Resolver) Subject(r *http.Request, req *request.Request, from Sender, now time.Time) request.Subject {
	s := request.Subject{Client: from.Client, Identity: &checkpb.Identity{}}
	if from.Hasher == nil {
		return s
	}
	s.Identity, s.SessionName = from.Hasher.Identify(r, from.Key, v.cfg.Project, req.Prompt)
	s.OwnSession = s.SessionName != ""
	if from.Client.Tenanted {
		s.Identity.Tenant = from.Client.Tenant
	}
	switch {
	case s.OwnSession || req.Prompt == nil:
	case req.Prompt.Previous != "":
		s.Identity.Session, s.OwnSession = v.session(r.Context(), s.Identity.GetCaller(), req.Prompt.Previous), true
	case s.Identity.GetSession() != "" && req.Prompt.Transcript != nil && req.ShowsTools():
		agent := req.Prompt.Transcript.Agent()
		s.Identity.Session = v.lineage.session(s.Identity.GetCaller()+string(agent[:]), s.Identity.GetSession(), req.Prompt.Transcript.Compacted(), now)
	}
	return s
}

// session returns the session of an answer. An answer that no gateway has seen, such as one
// from before Unloop was used, begins a session.
func (v *Resolver) session(ctx context.Context, caller, id string) string {
	if v.answers != nil {
		ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
		defer cancel()
		if session, err := v.answers.Session(ctx, caller, id); err == nil {
			return session
		}
	}
	v.unknownAnswers.Inc()
	return answers.Key(caller, id)
}

// Calls returns a request with the calls that the provider stores and that the request only
// refers to, by the ids of their items or by results of calls of the previous answer. open
// are the calls of that answer without results in the request. opts are the options with
// which the prompt was read.
func (v *Resolver) Calls(ctx context.Context, req *request.Request, caller string, opts provider.Options) (completed *request.Request, open []provider.ToolCall) {
	p, open := v.complete(ctx, req, caller, opts)
	if p == req.Prompt {
		return req, open
	}
	completed = new(request.Request)
	*completed = *req
	completed.Prompt = p
	return completed, open
}

// complete returns the prompt of a request with the calls that the provider stores; the
// same prompt if there are none.
func (v *Resolver) complete(ctx context.Context, req *request.Request, caller string, opts provider.Options) (*provider.Prompt, []provider.ToolCall) {
	p := req.Prompt
	if known := v.referred(ctx, caller, p.References); len(known) > 0 {
		opts.Known = known
		if again, err := req.Provider.Parse(req.Body.Inspected(), opts); err == nil && again != nil {
			p = again
		}
	}
	id, changes := p.Previous, false
	if id == "" {
		id, changes = p.Conversation, true
	}
	if !p.Delta || id == "" || !p.Transcript.Strays() {
		return p, nil
	}
	calls, err := v.calls(ctx, caller, id, changes)
	if err != nil {
		v.unknownCalls.Inc()
		return p, nil
	}
	with := *p
	var open []provider.ToolCall
	with.Transcript, open = p.Transcript.Precede(calls)
	return &with, open
}

// referred returns the calls that the ids of items refer to.
func (v *Resolver) referred(ctx context.Context, caller string, ids []string) map[string]provider.ToolCall {
	ids = ids[max(0, len(ids)-maxReferences):]
	if len(ids) == 0 {
		return nil
	}
	var mu sync.Mutex
	known := map[string]provider.ToolCall{}
	var group errgroup.Group
	group.SetLimit(lookupsAtOnce)
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	for _, id := range ids {
		group.Go(func() error {
			if calls, err := v.calls(ctx, caller, id, false); err == nil && len(calls) == 1 {
				mu.Lock()
				defer mu.Unlock()
				known[id] = calls[0]
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	if len(known) < len(ids) {
		v.unknownCalls.Inc()
	}
	return known
}

// calls returns the calls that are open after an answer, or in a conversation, where they
// may change.
func (v *Resolver) calls(ctx context.Context, caller, id string, changes bool) ([]provider.ToolCall, error) {
	if v.answers == nil {
		return nil, answers.ErrUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	stored, err := v.answers.Calls(ctx, caller, id, changes)
	if err != nil {
		return nil, err
	}
	out := make([]provider.ToolCall, len(stored))
	for i, c := range stored {
		out[i] = provider.ToolCall{
			Tool: c.GetTool(), Key: digest(c.GetCall()), ID: digest(c.GetId()), Poll: c.GetPoll(), Provided: c.GetProvided(),
		}
	}
	return out, nil
}

// digest returns a stored digest; zero if the length is wrong.
func digest(b []byte) (d fingerprint.Digest) {
	if len(b) == len(d) {
		copy(d[:], b)
	}
	return d
}
