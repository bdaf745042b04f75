// Package replay evaluates requests offline: it makes the checks that a gateway would send
// about recorded requests, and explains the decision on a single one.
//
// It does not know how requests are forwarded or answered.
package replay

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/respond"
	"github.com/unloop/unloop/gateway/internal/edge/stages"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/excerpts"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/memory/resolve"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/override"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/wire/prefixcache"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	schema "github.com/unloop/unloop/schemas/excerpts"
)

// Config is the part of a gateway's configuration that decides about requests.
type Config struct {
	Upstreams map[string]string
	Policies  policystore.Config
	Project   string
	// Timeout is that of a check.
	Timeout         time.Duration
	MaxInspectBytes int64
	// HashKey is the key for caller hashes; nil for the cluster's.
	HashKey *[identity.KeySize]byte
}

// Replayer evaluates requests without forwarding them or asking detectors. It is not safe for
// concurrent use.
type Replayer struct {
	stages    stages.Stages
	timeout   time.Duration
	project   string
	hashKey   *[identity.KeySize]byte
	overrides *override.History
	hasher    *identity.Hasher
}

// New returns a replayer for the configured bundle, or for the default policy. now returns
// the time of the current request.
func New(cfg *Config, now func() time.Time) (*Replayer, error) {
	table, err := route.NewTable(cfg.Upstreams)
	if err != nil {
		return nil, fmt.Errorf("read --upstream: %w", err)
	}
	policies, err := policystore.New(cfg.Policies, now, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return (&Replayer{
		stages:  stages.Stages{MaxInspectBytes: cfg.MaxInspectBytes, Table: table, Policies: policies, Gate: &admit.Gate{}},
		timeout: cfg.Timeout, project: cfg.Project, hashKey: cfg.HashKey,
		// Recordings have the hashes of keys anyway, and the same requests must give the same
		// report each time.
		hasher: identity.NewHasher([identity.KeySize]byte{}),
	}).Another(now), nil
}

// Another returns a fresh replayer with the same policies and without overrides. Both may be
// used at once.
func (e *Replayer) Another(now func() time.Time) *Replayer {
	out := *e
	out.stages.Now, out.stages.Memory, out.overrides = now, evidence.NewMemory(), override.NewHistory(nil)
	// Recordings name the session of a request that goes on from an answer.
	out.stages.Resolver = resolve.New(resolve.Config{Project: e.project}, nil, nil)
	return &out
}

// SetOverrides sets the operators' blocks and exemptions. Each holds from its creation to its
// end, by the time of the requests.
func (e *Replayer) SetOverrides(all []schemas.Override) { e.overrides = override.NewHistory(all) }

// Policies returns the policies in use.
func (e *Replayer) Policies() *bundle.Set { return e.stages.Policies.Rules().Set }

// Origin is the data of a recorded request other than its bytes.
type Origin struct {
	// Upstream is the upstream's name; "" to route by the path.
	Upstream string
	// Caller and Session are the recorded hashes; empty ones are derived from the request.
	// OwnSession is set if the request named its session, TenantVerified if its client's
	// token named the tenant.
	Caller, Session string
	OwnSession      bool
	TenantVerified  bool
}

// set sets the recorded identity.
func (o Origin) set(from *request.Subject) {
	if o.Caller != "" {
		from.Identity.Caller = o.Caller
	}
	if o.Session != "" {
		from.Identity.Session, from.OwnSession = o.Session, o.OwnSession
	}
	from.Client.Tenanted = o.TenantVerified
}

// Evaluation is a gateway's view of a request before it asks a detector, with the check that
// it would send.
type Evaluation struct {
	// Operator is the operator's override, as recordings name it, and Reason its reason; ""
	// for none.
	Operator, Reason string
	// Check is nil if no policy looks at the request, or an operator stopped or exempted
	// it.
	Check *checkpb.Check

	// limits are the rules in the check, which was made at a time.
	limits []evidence.Limit
	at     time.Time

	waiting evidence.Waiting
	memory  *evidence.Memory
}

// Answered ends the wait for the answer: requests that are in flight together may be samples
// of one prompt. It may be called more than once.
func (e *Evaluation) Answered() { e.memory.Answered(&e.waiting) }

// Evaluate evaluates a request, which then waits for its answer until Answered is called. It
// fails if the body can't be read.
func (e *Replayer) Evaluate(r *http.Request, origin Origin) (*Evaluation, error) {
	return e.EvaluateNext(r, origin, nil, Part{})
}

// EvaluateNext is Evaluate for a request of a conversation; it does not read the body of r.
// With a nil c it is Evaluate.
func (e *Replayer) EvaluateNext(r *http.Request, origin Origin, c *Conversation, part Part) (*Evaluation, error) {
	rules := e.stages.Policies.Rules()
	req, err := e.read(r, origin, c, part, rules)
	if err != nil {
		return nil, err
	}
	from := e.stages.Resolve(r, req, rules, request.Principal{}, e.hasher)
	origin.set(&from)
	operator := override.Decide(e.overrides.At(e.stages.Now()), rules.Set, req, &from, e.stages.Now())
	out := &Evaluation{Operator: operator.Operator, Reason: operator.Reason, memory: e.stages.Memory}
	if operator.Operator == "" {
		found := e.stages.Evidence(r.Context(), req, &from, rules, nil)
		out.Check, out.limits, out.at, out.waiting = found.Check, found.Limits, found.At, found.Waiting
	}
	return out, nil
}

// Pass adds a request to its conversation without evaluating it.
func (e *Replayer) Pass(r *http.Request, c *Conversation, part Part) error {
	_, err := e.read(r, Origin{}, c, part, e.stages.Policies.Rules())
	return err
}

// read reads a request; c is nil for one with all of its messages.
func (e *Replayer) read(r *http.Request, origin Origin, c *Conversation, part Part, rules *policystore.Rules) (*request.Request, error) {
	if c != nil {
		if c.request == nil {
			c.request = e.unread(r, origin)
		}
		return c.next(r.Context(), part, &e.stages, rules), nil
	}
	req := e.unread(r, origin)
	if err := e.stages.Read(r, req); err != nil {
		return nil, err
	}
	return e.parse(r.Context(), req, rules), nil
}

// unread returns a request before its body is read.
func (e *Replayer) unread(r *http.Request, origin Origin) *request.Request {
	target, _ := e.stages.Table.Route(r) // a request without an upstream can be evaluated, too
	if origin.Upstream != "" {
		target.Upstream = origin.Upstream
	}
	return request.New(r, target)
}

// ShownMessages is the number of newest messages that Rounds reads.
const ShownMessages = excerpts.Messages

// Rounds returns an excerpt of a request's conversation: the newest human message and the
// newest rounds, without secrets. It is empty for a request without a prompt.
func (e *Replayer) Rounds(r *http.Request) (schema.Loop, error) {
	req := e.unread(r, Origin{})
	if err := e.stages.Read(r, req); err != nil {
		return schema.Loop{}, err
	}
	prompt, err := req.Provider.Parse(req.Body.Inspected(), provider.Options{Tail: excerpts.Messages, Path: req.Path})
	if err != nil || prompt == nil {
		return schema.Loop{}, err
	}
	return excerpts.Of(prompt.Transcript), nil
}

// Outcome is the status of a request's answer, and its tokens; 0 if not known.
type Outcome struct {
	Status                                  int
	InputTokens, CachedTokens, OutputTokens int
}

// parse is Stages.Parse without a bound on memory.
func (e *Replayer) parse(ctx context.Context, req *request.Request, rules *policystore.Rules) *request.Request {
	read, _ := e.stages.Parse(ctx, req, rules, prefixcache.Scope{}, func(int) error { return nil }) // there is no other error
	return read
}

// Corrections returns the corrections that a gateway would send once it knows the
// outcome of a request.
func (e *Evaluation) Corrections(d *checkpb.Decision, o Outcome, at time.Time) []*checkpb.Correction {
	u := &usage.Usage{Input: o.InputTokens, Cached: o.CachedTokens, Output: o.OutputTokens}
	switch {
	case o.Status >= http.StatusBadRequest:
		u = nil
	case *u == usage.Usage{}:
		return nil
	}
	return account.Corrections(account.Reserved(e.limits, d), u, e.at, at, "")
}

// Uncounted reports whether a request whose answer has this status does not count, because an
// honest client repeats it, or left.
func Uncounted(status int) bool {
	return status == respond.StatusClientLeft || account.Uncounted(status)
}
