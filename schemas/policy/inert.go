package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// This file warns of keys that can have no effect beside the others.

// inert warns of keys of a block that are set although other keys leave them without effect.
func (r *report) inert(when bool, path, why string, keys ...string) {
	for _, key := range keys {
		if at := join(path, key); when && r.read(at) {
			r.warn(at, fmt.Sprintf("%s has no effect: %s", fieldName(at), why))
		}
	}
}

func (b *Bundle) inert(r *report, _ string) {
	r.inert(true, "", "it is accepted for Fairvisor alone", "defaults")
	off := b.KillSwitchOverride
	r.inert(off.Enabled && off.ExpiresAt.IsZero(), "", "kill_switch_override turns all of them off", "kill_switches")
	sources := b.sources()
	r.inert(!slices.Contains(sources, "jwt"), "", "no limit key, match or kill switch reads a claim", "jwt")
	r.inert(!slices.Contains(sources, "ip"), "", "no limit key, match or kill switch reads an address", "trusted_proxies")
	has := func(has func(s *Spec) bool) bool {
		return slices.ContainsFunc(b.Policies, func(e Entry) bool { return has(&e.Spec) })
	}
	if len(b.Policies) > 0 && !has(func(s *Spec) bool { return len(s.Selector.Tenant) == 0 }) {
		r.warn("policies", "every policy selects tenants: a request without a tenant (X-Tenant-ID, or a claim) matches none and is not checked")
	}
	for i, product := range b.Compat {
		at, why := fmt.Sprintf("compat[%d]", i), "%s changes the %s detector, which no policy has"
		switch {
		case product == CompatAgentSentinel && !has(func(s *Spec) bool { return s.Semantic != nil }):
			r.warn(at, product+" has no effect: "+fmt.Sprintf(why, "it", "semantic"))
		case product == CompatAISG && !has(func(s *Spec) bool { return s.Prompt != nil }):
			r.warn(at, product+" has no effect: "+fmt.Sprintf(why, "it", "prompt"))
		}
	}
}

// sources returns where the bundle's descriptors take their values.
func (b *Bundle) sources() (all []string) {
	add := func(key string) {
		d, _ := ParseDescriptor(key) // what is none is a fault of its own
		all = append(all, d.Source)
	}
	for i := range b.KillSwitches {
		add(b.KillSwitches[i].ScopeKey)
	}
	for i := range b.Policies {
		for _, rule := range b.Policies[i].Spec.allRules() {
			for _, key := range rule.LimitKeys {
				add(key)
			}
			for key := range rule.Match {
				add(key)
			}
		}
	}
	return all
}

func (s *Spec) allRules() []Rule {
	if s.FallbackLimit == nil {
		return s.Rules
	}
	return append(slices.Clone(s.Rules), *s.FallbackLimit)
}

func (s *Spec) inert(r *report, path string) {
	r.inert(s.Mode == "shadow", path, "a policy in shadow mode stops nothing", "reject", "holdout")
	if !s.watches() {
		r.warn(path, "the policy watches nothing: turn a detector on, such as tool: {}, or add rules")
	}
	hints, detects := s.does(Hint), s.does(Warn) || s.does(Hint) || s.does(Throttle) || s.does(Reject) || s.does(Break)
	r.inert(!hints, path, "no detector of the policy hints", "hint")
	r.inert(!detects, path, "the policy has no detector", "include_excerpt", "holdout")
	r.inert(!s.does(Reject) && !s.does(Break), path, "no detector of the policy rejects", "reject")
	always := slices.IndexFunc(s.Rules, func(rule Rule) bool { return len(rule.Match) == 0 })
	if always >= 0 {
		r.inert(true, path, "it applies where no rule does, and "+s.Rules[always].Name+" always does", "fallback_limit")
	}
}

// watches reports whether a policy has any part that is on.
func (s *Spec) watches() bool {
	return s.LoopDetection != nil && s.LoopDetection.Enabled || s.Prompt != nil && s.Prompt.Enabled || s.Tool != nil && s.Tool.Enabled ||
		s.Cycle != nil && s.Cycle.Enabled || s.Semantic != nil && s.Semantic.Enabled || s.SessionRepair != nil ||
		s.CircuitBreaker != nil && s.CircuitBreaker.Enabled || len(s.Rules) > 0 || s.FallbackLimit != nil
}

// OnlyPrompts reports whether a policy has parts that are on, and all of them look at the
// prompts of wire formats.
func (s *Spec) OnlyPrompts() bool {
	others := *s
	others.Prompt, others.Tool, others.Cycle, others.Semantic, others.SessionRepair = nil, nil, nil, nil, nil
	return s.watches() && !others.watches()
}

// does reports whether a detector of the policy may take an action.
func (s *Spec) does(a Action) bool {
	var all []Action
	take := func(steps []Step, more ...Action) {
		for _, step := range steps {
			all = append(all, step.Action)
		}
		all = append(all, more...)
	}
	if l := s.LoopDetection; l != nil && l.Enabled {
		take(l.Steps())
	}
	if p := s.Prompt; p != nil && p.Enabled {
		take(p.Steps(), Warn)
		if p.HintRounds > 0 || p.ComplaintHint > 0 {
			take(nil, Hint)
		}
	}
	if t := s.Tool; t != nil && t.Enabled {
		take(t.Escalation, t.WarnAction, t.BlockAction, t.ErrorAction)
	}
	if c := s.Cycle; c != nil && c.Enabled {
		take(c.Steps(), c.WideAction)
	}
	if m := s.Semantic; m != nil && m.Enabled {
		take(m.Steps())
	}
	return slices.Contains(all, a)
}

// rejects reports whether one of the steps stops a request.
func rejects(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Action.Strength() >= Reject.Strength() })
}

const (
	escalates   = "escalation stands in its place"
	neverStops  = "the detector rejects nothing"
	otherSource = "the cost comes from elsewhere"
)

func (l *LoopDetection) inert(r *report, path string) {
	r.inert(len(l.Escalation) > 0, path, escalates, "action")
	r.inert(!rejects(l.Steps()), path, neverStops, "cooldown_seconds")
}

func (p *Prompt) inert(r *report, path string) {
	r.inert(len(p.Escalation) > 0, path, escalates, "max_hits", "action")
	r.inert(!rejects(p.Steps()), path, neverStops, "cooldown_seconds")
	r.inert(p.WarnHits == 0, path, "warn_hits is 0", "warn_window_seconds")
}

func (t *Tool) inert(r *report, path string) {
	r.inert(len(t.Escalation) > 0, path, escalates, "warn_threshold", "block_threshold", "warn_action", "block_action")
	r.inert(t.ErrorThreshold+t.FailedRounds+t.EmptyThreshold+t.UnknownThreshold == 0, path, "findings about errors are off", "error_action")
	r.inert(!slices.ContainsFunc([]Action{t.WarnAction, t.BlockAction, t.ErrorAction}, func(a Action) bool { return a.Strength() >= Reject.Strength() }) && !rejects(t.Escalation),
		path, neverStops, "block_answer")
	for i, p := range t.PerTool {
		at := fmt.Sprintf("%s.per_tool[%d]", path, i)
		r.inert(p.WarnThreshold+p.BlockThreshold+p.PollMultiplier == 0, at, "it sets no threshold", "match")
		before := t.PerTool[:i]
		r.inert(slices.ContainsFunc(before, func(b PerTool) bool { return b.Match == "*" || b.Match == p.Match }), at, "a glob before it matches the same tools", "match")
	}
}

func (c *Cycle) inert(r *report, path string) {
	r.inert(len(c.Escalation) > 0, path, escalates, "repeats", "action")
	r.inert(c.NothingNew == 0, path, "nothing_new is 0", "escalate")
	r.inert(c.WideWindow == 0, path, "wide_window is 0", "wide_rounds", "wide_distinct_percent")
	r.inert(c.WideWindow+c.NothingNew == 0, path, "wide_window and nothing_new are 0", "wide_action")
	r.inert(!rejects(c.Steps()) && c.WideAction.Strength() < Reject.Strength(), path, neverStops, "block_answer")
}

func (s *Semantic) inert(r *report, path string) {
	r.inert(len(s.Escalation) > 0, path, escalates, "action", "reject_after")
	r.inert(len(s.Escalation) == 0 && s.Action.Strength() >= Reject.Strength(), path, "the action rejects already", "reject_after")
}

func (t *TokenBucket) inert(r *report, path string) {
	r.inert(t.TokensPerSecond > 0, path, "tokens_per_second stands in its place", "rps")
	r.inert(t.CostSource != "fixed", path, otherSource, "fixed_cost")
	r.inert(t.CostSource == "fixed", path, otherSource, "default_cost")
}

func (c *CostBased) inert(r *report, path string) {
	r.inert(c.CostKey != "fixed", path, otherSource, "fixed_cost")
	r.inert(c.CostKey == "fixed", path, otherSource, "default_cost")
	rejected := false
	for i, s := range c.StagedActions {
		at := fmt.Sprintf("%s.staged_actions[%d]", path, i)
		r.inert(s.Action != Throttle, at, "the action is not throttle", "delay_ms")
		r.inert(rejected, at, "a stage before it rejects already", "action")
		rejected = rejected || s.Action == Reject
	}
}

// sortStages puts the stages of budgets in their order, as Fairvisor does.
func (b *Bundle) sortStages() {
	for i := range b.Policies {
		for _, rule := range b.Policies[i].Spec.allRules() {
			if rule.CostBased != nil {
				slices.SortStableFunc(rule.CostBased.StagedActions, func(a, b StagedAction) int { return cmp.Compare(a.ThresholdPercent, b.ThresholdPercent) })
			}
		}
	}
}

// Lapsed returns warnings of those parts of the bundle that have expired at a time.
func (b *Bundle) Lapsed(now time.Time) (all []Fault) {
	note := func(path string, expires time.Time) {
		if !expires.IsZero() && !now.Before(expires) {
			all = append(all, Fault{Line: b.lines[path], Field: path, Message: fmt.Sprintf("%s has no effect: it expired at %s", fieldName(path), expires.Format(time.RFC3339))})
		}
	}
	if b.GlobalShadow.Enabled {
		note("global_shadow", b.GlobalShadow.ExpiresAt)
	}
	if b.KillSwitchOverride.Enabled {
		note("kill_switch_override", b.KillSwitchOverride.ExpiresAt)
	}
	for i := range b.KillSwitches {
		note(fmt.Sprintf("kill_switches[%d]", i), b.KillSwitches[i].ExpiresAt)
	}
	return all
}
