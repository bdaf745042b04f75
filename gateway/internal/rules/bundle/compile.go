package bundle

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/unloop/unloop/schemas/policy"
)

// Set has the policies of one bundle. It never changes, and is safe for concurrent use.
type Set struct {
	version      string
	policies     []*Policy
	byID         map[string]*Policy
	index        index
	prices       []modelPrice
	killOverride policy.Override

	// KillSwitches are in the bundle's order. They have no effect while
	// KillSwitchesOff is true.
	KillSwitches []Kill
	// FairvisorHeaders asks for Fairvisor's response headers in addition to Unloop's.
	FairvisorHeaders bool
}

// Policy is a compiled policy. Its fields include defaults, and must not be changed. A
// detector that is off is nil.
type Policy struct {
	ID             string
	FailClosed     bool
	IncludeExcerpt bool
	SessionRepair  bool
	Hint           policy.HintText
	// Reject is the answer to rejected requests; "" leaves it to the gateway.
	Reject policy.RejectAnswer

	LoopDetection *policy.LoopDetection
	Prompt        *policy.Prompt
	Tool          *policy.Tool
	Cycle         *policy.Cycle
	Semantic      *policy.Semantic
	// ToolWire, CycleWire and SemanticWire are the detectors in the form of checks; nil for
	// those that are off.
	ToolWire, CycleWire, SemanticWire []byte
	// PromptOff says that the policy turns its prompt detector off, and does not merely lack
	// one.
	PromptOff bool

	// Rules are in the bundle's order. Fallback, if not nil, is the rule for requests
	// that match none of them.
	Rules    []Limit
	Fallback *Limit
	// Breaker is nil if the policy has none.
	Breaker *Breaker
	// LimitKeys are the distinct descriptors of all rules, sorted by name. They are part of
	// the request detector's fingerprint.
	LimitKeys []policy.Descriptor

	// Selector is the source of selector.
	Selector *policy.Selector

	order    int
	selector matcher
	shadow   bool
	global   policy.Override
	holdout  float64
}

// Kill is a compiled kill switch.
type Kill struct {
	*policy.KillSwitch
	// Scope is the descriptor whose value must be ScopeValue.
	Scope policy.Descriptor
}

// Compile validates a bundle and makes it ready for requests. A bundle from [policy.Parse]
// always compiles. The set shares the bundle's memory, so the bundle must not be changed
// afterwards.
func Compile(b *policy.Bundle) (*Set, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	version, err := b.Version()
	if err != nil {
		return nil, err
	}
	s := &Set{
		version: version, byID: map[string]*Policy{}, killOverride: b.KillSwitchOverride,
		FairvisorHeaders: b.Compatible(policy.CompatFairvisor), prices: compilePrices(b.Prices),
	}
	for i := range b.KillSwitches {
		k := &b.KillSwitches[i]
		s.KillSwitches = append(s.KillSwitches, Kill{k, descriptor(k.ScopeKey)})
	}
	for i := range b.Policies {
		p, err := compilePolicy(&b.Policies[i])
		if err != nil {
			return nil, err
		}
		p.order, p.global = i, b.GlobalShadow
		p.selector.nothing = s.FairvisorHeaders && b.Policies[i].Spec.Selector.Pathless()
		s.policies = append(s.policies, p)
		s.byID[p.ID] = p
	}
	s.index = buildIndex(s.policies)
	return s, nil
}

// descriptor parses a descriptor of a valid bundle.
func descriptor(text string) policy.Descriptor {
	d, _ := policy.ParseDescriptor(text) // it was parsed when the bundle was validated
	return d
}

func compilePolicy(e *policy.Entry) (*Policy, error) {
	spec := &e.Spec
	p := &Policy{
		ID: e.ID, FailClosed: spec.FailureMode == "closed", IncludeExcerpt: spec.IncludeExcerpt,
		SessionRepair: spec.SessionRepair != nil && spec.SessionRepair.Enabled, Hint: spec.Hint, Reject: spec.Reject,
		Selector: &spec.Selector, selector: compileSelector(&spec.Selector), shadow: spec.Mode == "shadow", holdout: spec.Holdout,
	}
	p.compileRules(spec)
	return p, p.compileDetectors(spec)
}

func (p *Policy) compileDetectors(spec *policy.Spec) error {
	if spec.LoopDetection != nil && spec.LoopDetection.Enabled {
		p.LoopDetection = spec.LoopDetection
	}
	if spec.Prompt.Active() {
		p.Prompt = spec.Prompt
	}
	p.PromptOff = spec.Prompt != nil && p.Prompt == nil
	if spec.Tool != nil && spec.Tool.Enabled {
		p.Tool = spec.Tool
	}
	if spec.Cycle != nil && spec.Cycle.Enabled {
		p.Cycle = spec.Cycle
	}
	if spec.Semantic != nil && spec.Semantic.Enabled {
		p.Semantic = spec.Semantic
	}
	var errs [3]error
	p.ToolWire, errs[0] = policy.EncodeBlock(p.Tool)
	p.CycleWire, errs[1] = policy.EncodeBlock(p.Cycle)
	p.SemanticWire, errs[2] = policy.EncodeBlock(p.Semantic)
	return errors.Join(errs[:]...)
}

// RejectBy returns the answer to requests that a detector rejects; "" leaves it to the
// gateway.
func (p *Policy) RejectBy(detector string) policy.RejectAnswer {
	own := ""
	switch {
	case detector == "tool" && p.Tool != nil:
		own = p.Tool.BlockAnswer
	case detector == "cycle" && p.Cycle != nil:
		own = p.Cycle.BlockAnswer
	}
	switch own {
	case policy.AnswerSynthetic:
		return policy.RejectSynthetic
	case policy.AnswerError:
		return "429"
	default:
		return p.Reject
	}
}

// Version returns the bundle's name, such as 7-3fa9c1d2: its number and a hash of its
// content.
func (s *Set) Version() string { return s.version }

// Policies returns all policies in the bundle's order. The slice must not be changed.
func (s *Set) Policies() []*Policy { return s.policies }

// ByID returns the policy with an id; nil if there is none.
func (s *Set) ByID(id string) *Policy { return s.byID[id] }

// KillSwitchesOff reports whether the bundle overrides its kill switches at a time.
func (s *Set) KillSwitchesOff(now time.Time) bool { return s.killOverride.ActiveAt(now) }

// Shadow reports whether the policy only observes at a time, by its own mode or by that of
// the whole bundle.
func (p *Policy) Shadow(now time.Time) bool { return p.shadow || p.global.ActiveAt(now) }

// HeldOut reports whether a session belongs to the share of sessions in which the policy
// only observes. It depends only on the policy and the session, so that all gateways agree.
func (p *Policy) HeldOut(session string) bool {
	if p.holdout <= 0 {
		return false
	}
	return float64(mix(p.ID, session)>>11)/(1<<53) < p.holdout
}

// mix hashes two strings with FNV-1a and the finalizer of MurmurHash3, since FNV alone
// hardly changes the high bits for short texts.
func mix(a, b string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(a + "\xff" + b + "\xff")) // never fails
	h := sum.Sum64()
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
