package gateway

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/auth"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/memory/resolve"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/descriptor"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

// stages are the stages of a request that ask nobody: gateways, replays and
// explanations share them.
type stages struct {
	cfg      Config
	now      func() time.Time
	table    *route.Table
	bundles  *policystore.Policies
	gate     *admit.Gate
	resolver *resolve.Resolver
	memory   *evidence.Memory
}

// read reads the body of a request.
func (s *stages) read(r *http.Request, req *request.Request) (err error) {
	req.Body, err = intake.Read(r, s.cfg.MaxInspectBytes)
	return err
}

// parse returns a request with the prompt in its body, which may be incomplete if the
// context ended. take reserves memory for copies of the body; parse returns its error.
func (s *stages) parse(ctx context.Context, req *request.Request, rules *policystore.Rules, take func(n int) error) (*request.Request, error) {
	return intake.Parse(req, s.cfg.MaxInspectBytes, options(ctx, req, rules), take)
}

// options say which parts of a request's prompt are needed: none once the context ended.
func options(ctx context.Context, req *request.Request, rules *policystore.Rules) provider.Options {
	o := rules.Options(req.Path)
	o.Stop = func() bool { return ctx.Err() != nil }
	return o
}

// resolve finds out who sent a request.
func (s *stages) resolve(r *http.Request, req *request.Request, rules *policystore.Rules, client auth.Principal, hasher *identity.Hasher) request.Subject {
	from := s.resolver.Subject(r, req, resolve.Sender{Client: client, Key: s.gate.CallerKey(r, req, client), Hasher: hasher}, s.now())
	from.Descriptors = rules.Descriptors.Values(descriptor.Subject{HTTP: r, Identity: from.Identity, Model: req.Model()})
	return from
}

// evidence makes the evidence of a request. If a policy evaluates its tool calls, those
// that the provider keeps are looked up. key returns the hash of the sender's API key; nil
// if nobody knows it.
func (s *stages) evidence(ctx context.Context, req *request.Request, from *request.Subject, rules *policystore.Rules, key func() string) evidence.Evidence {
	var open []provider.ToolCall
	matched := evidence.Match(rules.Set, req, from)
	callsWatched := req.Prompt != nil && slices.ContainsFunc(matched, func(p *bundle.Policy) bool { return p.Tool != nil || p.Cycle != nil || p.Prompt != nil })
	if callsWatched {
		req, open = s.resolver.Calls(ctx, req, from.Identity.GetCaller(), options(ctx, req, rules))
	}
	in := evidence.Input{
		Request: req, Subject: from, Policies: rules.Set, Matched: matched, Reading: rules.Reading, Memory: s.memory, Now: s.now(),
	}
	if key != nil && evidence.Telling(req) {
		in.Key = key()
	}
	e := evidence.Of(&in)
	e.CallsWatched, e.Open = callsWatched, open
	if e.Check != nil {
		e.Check.RequestId = request.ID(req.Header)
	}
	return e
}
