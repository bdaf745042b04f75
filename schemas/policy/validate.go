package policy

import (
	"fmt"
	"slices"
)

// This file has the checks that concern more than one field.

func (b *Bundle) checkBlock(r *report, _ string) {
	first := map[string]int{}
	for i := range b.Policies {
		id := b.Policies[i].ID
		path := fmt.Sprintf("policies[%d].id", i)
		if j, twice := first[id]; twice && id != "" {
			r.fault(path, fmt.Sprintf("id %q is already used by policies[%d]", id, j))
			continue
		}
		first[id] = i
	}
	for i := range b.KillSwitches {
		b.unavailable(r, b.KillSwitches[i].ScopeKey, fmt.Sprintf("kill_switches[%d].scope_key", i), "the kill switch never matches")
	}
	for i := range b.Policies {
		b.checkDescriptors(r, &b.Policies[i].Spec, fmt.Sprintf("policies[%d].spec", i))
	}
	b.checkCompat(r)
	if len(b.Policies) == 0 && r.read("policies") {
		r.warn("policies", "there is no policy: nothing is watched")
	}
}

// checkCompat applies the changes of policies for compatibility with a product.
func (b *Bundle) checkCompat(r *report) {
	for i := range b.Policies {
		path, spec := fmt.Sprintf("policies[%d].spec", i), &b.Policies[i].Spec
		if b.Compatible(CompatFairvisor) && spec.Selector.Pathless() {
			r.warn(join(path, "selector"), "the policy matches nothing: with compat: [fairvisor] a selector needs pathPrefix or pathExact")
		}
		if b.Compatible(CompatAISG) && spec.Prompt != nil && !r.read(join(path, "prompt.count_each")) {
			spec.Prompt.CountEach = true
		}
		semantic := spec.Semantic
		if !b.Compatible(CompatAgentSentinel) || semantic == nil || !r.read("") {
			continue
		}
		if at := join(path, "semantic"); !r.read(join(at, "scope")) {
			semantic.Scope = "tenant"
		}
		if at := join(path, "semantic"); !r.read(join(at, "min_matches")) {
			semantic.MinMatches = 1
		}
	}
}

// Compatible reports whether the bundle is to be compatible with a product.
func (b *Bundle) Compatible(product string) bool { return slices.Contains(b.Compat, product) }

// Pathless reports whether the selector says nothing about paths.
func (s *Selector) Pathless() bool { return len(s.PathPrefix) == 0 && len(s.PathExact) == 0 }

func (s *Spec) checkBlock(r *report, path string) {
	s.checkRules(r, path)
	s.checkReject(r, path)
	if s.CircuitBreaker != nil && s.CircuitBreaker.Enabled && len(s.Rules) == 0 {
		r.warn(join(path, "circuit_breaker"), "circuit_breaker counts requests, and those of all together, since there is no rule whose cost and limit key it could take")
	}
}

func (s *Spec) checkRules(r *report, path string) {
	first := map[string]int{}
	for i := range s.Rules {
		name, at := s.Rules[i].Name, fmt.Sprintf("%s.rules[%d].name", path, i)
		if name == "" {
			r.fault(at, "name is required")
			continue
		}
		if j, twice := first[name]; twice {
			r.fault(at, fmt.Sprintf("name %q is already used by rules[%d]", name, j))
			continue
		}
		first[name] = i
	}
	if s.FallbackLimit != nil && s.FallbackLimit.Name == "" {
		s.FallbackLimit.Name = "fallback_limit"
	}
}

func (s *Selector) checkBlock(r *report, path string) {
	for _, name := range sortedKeys(s.Headers) {
		if !validHeaderName(name) {
			r.fault(join(path, "headers."+name), fmt.Sprintf("%q is no header name", name))
		}
	}
}

func validHeaderName(name string) bool {
	return name != "" && consistsOf(name, alphanumeric+"!#$%&'*+-.^_`|~")
}

func (l *LoopDetection) checkBlock(r *report, path string) {
	r.escalation(l.Escalation, path)
	for i, s := range l.Escalation {
		if s.Action == Hint || s.Action == Break {
			r.fault(fmt.Sprintf("%s.escalation[%d].action", path, i), "action must be one of reject, throttle, warn")
		}
	}
}

func (p *Prompt) checkBlock(r *report, path string) { r.escalation(p.Escalation, path) }

func (c *Cycle) checkBlock(r *report, path string) {
	r.escalation(c.Escalation, path)
	if c.WideWindow > 0 && c.WideRounds > c.WideWindow {
		r.fault(join(path, "wide_rounds"), fmt.Sprintf("wide_rounds must be <= wide_window (%d)", c.WideWindow))
	}
}

func (s *Semantic) checkBlock(r *report, path string) {
	r.escalation(s.Escalation, path)
	at := join(path, "min_matches")
	switch {
	case s.MinMatches <= s.HistorySize:
	case r.read("") && !r.read(at):
		// A default must not make a short history a fault.
		s.MinMatches = max(s.HistorySize, 1)
	default:
		r.fault(at, fmt.Sprintf("min_matches must be <= history_size (%d)", s.HistorySize))
	}
}

// escalation checks that each step comes later than the one before it and is
// no weaker.
func (r *report) escalation(steps []Step, path string) {
	for i := 1; i < len(steps); i++ {
		at := fmt.Sprintf("%s.escalation[%d]", path, i)
		if steps[i].At <= steps[i-1].At {
			r.fault(at+".at", fmt.Sprintf("at must be > %d, that of the previous step", steps[i-1].At))
		}
		if steps[i].Action.Strength() < steps[i-1].Action.Strength() {
			r.fault(at+".action", fmt.Sprintf("action must not be weaker than %s, that of the previous step", steps[i-1].Action))
		}
	}
}

// checkBlock repairs thresholds as LibreFang documents it: those in the wrong order are
// swapped. A 0 is the default, as tags say.
func (t *Tool) checkBlock(r *report, path string) {
	r.escalation(t.Escalation, path)
	r.ordered(&t.WarnThreshold, &t.BlockThreshold, path, "warn_threshold", "block_threshold")
	if t.OutcomeWarn > 0 && t.OutcomeBlock > 0 {
		r.ordered(&t.OutcomeWarn, &t.OutcomeBlock, path, "outcome_warn", "outcome_block")
	}
	for i := range t.PerTool {
		t.checkPerTool(r, &t.PerTool[i], fmt.Sprintf("%s.per_tool[%d]", path, i))
	}
}

func (t *Tool) checkPerTool(r *report, p *PerTool, path string) {
	switch {
	case p.WarnThreshold > 0 && p.BlockThreshold > 0:
		r.ordered(&p.WarnThreshold, &p.BlockThreshold, path, "warn_threshold", "block_threshold")
	case p.WarnThreshold > t.BlockThreshold:
		r.warn(join(path, "warn_threshold"),
			fmt.Sprintf("warn_threshold is greater than the block_threshold that holds, %d: such calls are blocked without a warning", t.BlockThreshold))
	}
}

// ordered swaps two thresholds if they are in the wrong order.
func (r *report) ordered(low, high *int, path, lowName, highName string) {
	if *low > *high {
		*low, *high = *high, *low
		r.warn(join(path, lowName), fmt.Sprintf("%s is greater than %s: they are swapped", lowName, highName))
	}
}

func (j *JWT) checkBlock(r *report, path string) {
	for i := range j.Keys {
		j.Keys[i].checkKey(r, fmt.Sprintf("%s.keys[%d]", path, i))
	}
}

func (k *JWTKey) checkKey(r *report, path string) {
	switch {
	case r.faulty[join(path, "alg")]:
	case k.symmetric():
		if k.SecretEnv == "" {
			r.fault(join(path, "secret_env"), "secret_env is required for "+k.Algorithm)
		}
		if k.PublicKey != "" {
			r.fault(join(path, "public_key"), "public_key has no use for "+k.Algorithm)
		}
	case k.PublicKey == "":
		r.fault(join(path, "public_key"), "public_key is required for "+k.Algorithm)
	default:
		if _, err := k.Public(); err != nil {
			r.fault(join(path, "public_key"), "public_key "+err.Error())
		}
	}
}

// checkDescriptors warns of rules with descriptors that no request has.
func (b *Bundle) checkDescriptors(r *report, spec *Spec, path string) {
	for i := range spec.Rules {
		b.checkRuleDescriptors(r, &spec.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i))
	}
	if spec.FallbackLimit != nil {
		b.checkRuleDescriptors(r, spec.FallbackLimit, join(path, "fallback_limit"))
	}
}

func (b *Bundle) checkRuleDescriptors(r *report, rule *Rule, path string) {
	for i, key := range rule.LimitKeys {
		b.unavailable(r, key, fmt.Sprintf("%s.limit_keys[%d]", path, i), "the rule is skipped")
	}
	for _, key := range sortedKeys(rule.Match) {
		b.unavailable(r, key, join(path, "match."+key), "the rule never applies")
	}
}

// unavailable warns of a descriptor without a value: only trusted proxies send the class of
// an address.
func (b *Bundle) unavailable(r *report, key, path, consequence string) {
	if d, err := ParseDescriptor(key); err == nil && d.Proxied() != "" && len(b.TrustedProxies) == 0 {
		r.warn(path, fmt.Sprintf("%s has no effect without trusted_proxies, which set %s: %s", d, d.Proxied(), consequence))
	}
}
