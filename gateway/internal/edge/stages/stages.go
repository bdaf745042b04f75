// Package stages has the stages of a request before detectors are asked: read it, resolve its
// sender, and make its evidence. Gateways, replays and explanations share them.
//
// It does not know detectors, or what is done with a request.
package stages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/ask/standing"
	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/edge/admit"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/memory/identity"
	"github.com/unloop/unloop/gateway/internal/memory/resolve"
	"github.com/unloop/unloop/gateway/internal/memory/spent"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/share/limiter"
	"github.com/unloop/unloop/gateway/internal/wire/descriptor"
	"github.com/unloop/unloop/gateway/internal/wire/prefixcache"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

// Large reports whether parsing a request takes much processor time.
func Large(req *request.Request) bool {
	n := len(req.Body.Bytes)
	if req.Run != nil {
		n += len(req.Run.Arguments) + len(req.Run.Result)
	}
	return n > limiter.Large || req.Header.Get("Content-Encoding") != ""
}

// Raw returns a request as its client sent it.
func Raw(r *http.Request, req *request.Request, who request.Principal) *standing.Raw {
	return &standing.Raw{
		Method: req.Method, Target: r.RequestURI, Host: req.Host, Header: req.Header, Body: req.Body.Bytes,
		Peer:   r.RemoteAddr[:max(strings.LastIndexByte(r.RemoteAddr, ':'), 0)],
		Client: who.ID, Tenant: who.Tenant,
	}
}

// Stages are the stages of a request before detectors are asked.
type Stages struct {
	// MaxInspectBytes bounds the bodies that are inspected.
	MaxInspectBytes int64
	Now             func() time.Time
	Table           *route.Table
	Policies        *policystore.Policies
	Gate            *admit.Gate
	Resolver        *resolve.Resolver
	Memory          *evidence.Memory
	// Spent knows what recent requests cost; nil to estimate costs by size.
	Spent *spent.Cache
}

// Read reads the body of a request.
func (s *Stages) Read(r *http.Request, req *request.Request) (err error) {
	req.Body, err = intake.Read(r, s.MaxInspectBytes)
	return err
}

// Parse returns a request with the prompt in its body, which may be incomplete if the
// context ended. It skips a cached prefix. take reserves memory for copies of the
// body; Parse returns its error.
func (s *Stages) Parse(ctx context.Context, req *request.Request, rules *policystore.Rules, scope prefixcache.Scope, take func(n int) error) (*request.Request, error) {
	o := options(ctx, req, rules)
	o.Prefixes = scope
	return intake.Parse(req, s.MaxInspectBytes, o, take)
}

// Scope returns the cached prefixes of the earlier requests of the same caller that are read in the
// same way.
func (s *Stages) Scope(r *http.Request, req *request.Request, rules *policystore.Rules, client request.Principal) prefixcache.Scope {
	return rules.Prefixes.Scope(s.Gate.CallerKey(r, req, client), client.ID, client.Tenant, strconv.FormatUint(uint64(req.Caller), 16), req.Provider.Name(), req.Path)
}

// ParseNext is Parse for a body with only the messages that a request adds to the
// conversation that it continues; nil for the first request.
func (s *Stages) ParseNext(ctx context.Context, req *request.Request, rules *policystore.Rules, continues *transcript.Transcript) *request.Request {
	o := options(ctx, req, rules)
	o.Continue = continues
	read, _ := intake.Parse(req, s.MaxInspectBytes, o, func(int) error { return nil }) // there is no other error
	return read
}

// options returns which parts of a request's prompt are needed: none after the context ended.
func options(ctx context.Context, req *request.Request, rules *policystore.Rules) provider.Options {
	o := rules.Options(req.Path)
	o.Stop = func() bool { return ctx.Err() != nil }
	return o
}

// Resolve returns the sender of a request.
func (s *Stages) Resolve(r *http.Request, req *request.Request, rules *policystore.Rules, client request.Principal, hasher *identity.Hasher) request.Subject {
	from := s.Resolver.Subject(r, req, resolve.Sender{Client: client, Key: s.Gate.CallerKey(r, req, client), Hasher: hasher}, s.Now())
	from.Descriptors = rules.Descriptors.Values(descriptor.Subject{HTTP: r, Identity: from.Identity, Model: req.Model()})
	return from
}

// Evidence returns the evidence of a request. If a policy evaluates tool calls, those that
// the provider keeps are looked up. key returns the hash of the sender's API key; nil if it
// is not known.
func (s *Stages) Evidence(ctx context.Context, req *request.Request, from *request.Subject, rules *policystore.Rules, key func() string) evidence.Evidence {
	var open []provider.ToolCall
	matched := evidence.Match(rules.Set, req, from)
	callsWatched := req.Prompt != nil && slices.ContainsFunc(matched, func(p *bundle.Policy) bool { return p.Tool != nil || p.Cycle != nil || p.Prompt != nil })
	if callsWatched {
		req, open = s.Resolver.Calls(ctx, req, from.Identity.GetCaller(), options(ctx, req, rules))
	}
	in := evidence.Input{
		Request: req, Subject: from, Policies: rules.Set, Matched: matched, Reading: rules.Reading, Memory: s.Memory, Now: s.Now(),
	}
	if caller, model := from.Identity.GetCaller(), req.Model(); s.Spent != nil && req.AsksModel() {
		in.Expect = func(tokens int) usage.Usage { return s.Spent.Expect(caller, model, tokens) }
	}
	if key != nil && evidence.Distinctive(req) {
		in.Key = key()
	}
	e := evidence.Build(&in)
	e.CallsWatched, e.Open = callsWatched, open
	if e.Check != nil {
		e.Check.RequestId = request.ID(req.Header)
	}
	return e
}
