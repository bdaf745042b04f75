// Package evidence builds the check that detectors get for a request: the counters of the
// matching policies, the history and texts that they compare, and the rules that apply.
//
// It takes the request, who sent it, the policies in force, the memory of earlier requests
// and a time. It may not know the network, a clock or metrics, and it decides nothing:
// package outcome does, by the detectors' decision.
package evidence

import (
	"math"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// idempotencyDomain is the domain of the hashes of idempotency keys. The number of a domain
// changes with what goes into its hashes, so that old and new gateways never share a counter
// by accident.
const idempotencyDomain = "unloop/idempotency/1"

// Input is what Build needs.
type Input struct {
	*request.Request
	*request.Subject
	// Policies are those in force, and Matched those of them that apply to the request.
	Policies *bundle.Set
	Matched  []*bundle.Policy
	// Reading says how each policy reads tool results.
	Reading map[string]provider.Rules
	// Key is the hash of the API key, without the end user. It is needed if the request
	// is Distinctive; without it, prompts that change users are not counted.
	Key    string
	Memory *Memory
	Now    time.Time
	// Expect returns the expected usage of an answer to the request, given an estimate of the
	// prompt's tokens. If Expect is nil, the estimate is used.
	Expect func(tokens int) usage.Usage
}

// Evidence is the check of a request, and what the gateway keeps for the decision on it.
type Evidence struct {
	// Check is what detectors are asked, without its request id; nil if no policy looks at
	// the request.
	Check *checkpb.Check
	// Limits are the rules in the check, in its order.
	Limits []Limit
	// Skipped are the rules for which the request lacks a descriptor.
	Skipped []Skipped
	// At is the time of the check.
	At time.Time
	// CallsWatched says that a policy evaluates the tool calls of the request. Open are
	// earlier calls without a result in the request.
	CallsWatched bool
	Open         []provider.ToolCall
	// FailClosed says that a request without a full decision is refused, and Repair
	// that a broken history is repaired.
	FailClosed, Repair bool

	Waiting Waiting
}

// maker builds the evidence of one request.
type maker struct {
	Input
	out Evidence
	// again are the policies whose tool detector counts the newest calls: calls repeated
	// after other work, or results that are only acknowledgements.
	again []string
	// does says that the newest calls change something.
	does bool
}

// Match returns the policies that apply to a request.
func Match(set *bundle.Set, r *request.Request, from *request.Subject) []*bundle.Policy {
	return set.Match(&bundle.Request{
		Method: r.Method, Path: r.Path, Also: r.Target.Paths, Host: r.Host, Model: r.Model(), Upstream: r.Target.Upstream,
		Tenant: from.Identity.GetTenant(), Project: from.Identity.GetProject(), Caller: from.Identity.GetCaller(),
		Header: r.Header.Get,
	})
}

// Build returns the evidence of a request.
func Build(in *Input) Evidence {
	m := &maker{Input: *in, out: Evidence{At: in.Now}}
	for _, p := range in.Matched {
		enforced := !p.Shadow(in.Now)
		m.out.FailClosed = m.out.FailClosed || p.FailClosed && enforced
		m.out.Repair = m.out.Repair || p.SessionRepair && enforced
	}
	counters, watches := append(m.counters(), m.userCounters()...), m.watches()
	expectPolls(counters, watches, m.Matched)
	newest, semantics := m.semantics()
	m.limits()
	if len(counters)+len(watches)+len(semantics)+len(m.out.Limits) == 0 {
		return m.out
	}
	expected := m.expected()
	m.out.Check = &checkpb.Check{
		Identity: m.Identity, Model: m.Model(), Bundle: m.Policies.Version(),
		Counters: counters, Watches: watches, Exchange: newest, Semantics: semantics,
		Retry: m.isRetry(), Idempotency: m.idempotency(), InputTokens: uint32(min(expected.Input, math.MaxUint32)), Usd: m.usd(expected),
		Asked: m.DecisionOnly, Peek: m.Peek, Probe: m.Probe, Excerpt: m.excerpt(),
	}
	if m.Probe { // a late comparison of texts raises an incident of its own
		m.out.Check.Exchange, m.out.Check.Semantics = nil, nil
	}
	for _, l := range m.out.Limits {
		m.out.Check.Limits = append(m.out.Check.Limits, l.Wire)
	}
	return m.out
}

// expected returns the expected usage of an answer to the request.
func (m *maker) expected() usage.Usage {
	tokens := int(m.Body.PromptTokens())
	if m.Expect == nil {
		return usage.Usage{Input: tokens}
	}
	return m.Expect(tokens)
}

// usd returns the price of a usage; nil if the price of the model is unknown.
func (m *maker) usd(u usage.Usage) *float64 {
	if !m.AsksModel() {
		return nil
	}
	price, known := m.Policies.Price(m.Model())
	if !known {
		return nil
	}
	usd := price.USD(u.Input, u.Cached, u.Output)
	return &usd
}

// shadow reports whether a policy only observes the request.
func (m *maker) shadow(p *bundle.Policy) bool {
	return p.Shadow(m.Now) || p.HeldOut(m.Identity.GetSession())
}

// idempotency returns the hash of the request's idempotency key; "" without a key.
func (m *maker) idempotency() string {
	key := m.Header.Get("Idempotency-Key")
	if key == "" {
		return ""
	}
	return fingerprint.New(idempotencyDomain).String(key).Sum().String()
}

// isRetry reports whether the client says that the request is a retry.
func (m *maker) isRetry() bool {
	n := m.Header.Get("X-Stainless-Retry-Count")
	return n != "" && n != "0"
}

var windows = map[string]checkpb.Window{
	policy.WindowRefresh: checkpb.Window_WINDOW_REFRESH,
	policy.WindowSliding: checkpb.Window_WINDOW_SLIDING,
	policy.WindowFixed:   checkpb.Window_WINDOW_FIXED,
}

func action(a policy.Action) checkpb.Action { return checkpb.ActionOf(string(a)) }

func steps(ladder []policy.Step) []*checkpb.Step {
	out, all := make([]*checkpb.Step, len(ladder)), make([]checkpb.Step, len(ladder))
	for i, s := range ladder {
		all[i].At, all[i].Action = uint32(s.At), action(s.Action)
		out[i] = &all[i]
	}
	return out
}
