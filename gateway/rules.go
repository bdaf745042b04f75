package gateway

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// limitDomain is the domain of the hashes that name a rule's counters.
const limitDomain = "unloop/limit/1"

// applied is a rule that applies to a request, beside its entry in the check.
type applied struct {
	rule *bundle.Limit
	wire *checkpb.Limit
	// cost turns an answer's usage into what it cost in the rule's unit; nil for
	// costs that are known beforehand.
	cost func(usage.Usage) float64
	// oversized is the reason for which no state of the rule lets the request
	// through; "" if one might.
	oversized string
}

// limits lists the rules of the matching policies that apply to this request.
func (g *Gateway) limits(x *exchange, policies []*bundle.Policy, now time.Time) []applied {
	var out []applied
	if x.Run != nil {
		return nil // a tool's call is no request
	}
	for _, p := range policies {
		ruling := x.ruling(p)
		if len(ruling) == 0 && p.Breaker == nil {
			continue
		}
		shadow := p.Shadow(now) || p.HeldOut(x.Identity.GetSession())
		if p.Breaker != nil {
			out = append(out, x.breaker(p, shadow))
		}
		for _, rule := range ruling {
			out = g.apply(out, x, p.ID, rule, shadow)
		}
	}
	return out
}

// ruling are a policy's rules whose match holds, or else its fallback limit.
func (x *exchange) ruling(p *bundle.Policy) []*bundle.Limit {
	var out []*bundle.Limit
	for i := range p.Rules {
		if x.holds(p.Rules[i].Conditions) {
			out = append(out, &p.Rules[i])
		}
	}
	if len(out) == 0 && p.Fallback != nil {
		out = append(out, p.Fallback)
	}
	return out
}

// holds says whether the request has all the values that a rule asks for.
func (x *exchange) holds(conditions []bundle.Condition) bool {
	for _, c := range conditions {
		if value, ok := x.Descriptors.Get(c.Descriptor); !ok || value.Text != c.Value {
			return false
		}
	}
	return true
}

// apply appends a rule, unless the request lacks a descriptor of it or costs
// nothing in the rule's unit.
func (g *Gateway) apply(out []applied, x *exchange, policyID string, rule *bundle.Limit, shadow bool) []applied {
	if rule.Metered() && !x.asksModel() {
		return out
	}
	key, missing := x.limitKey(rule)
	if missing != "" {
		g.metrics.descriptorMissing.WithLabelValues(policyID, ruleName(rule), missing).Inc()
		return out
	}
	a := applied{rule: rule, wire: &checkpb.Limit{Policy: policyID, Rule: ruleName(rule), Key: key, Shadow: shadow}}
	a.limit(x)
	return append(out, a)
}

// limit sets the cost and the limits of the rule's algorithm.
func (a *applied) limit(x *exchange) {
	switch rule := a.rule; {
	case rule.TokenBucket != nil:
		a.tokenBucket(x, rule.TokenBucket)
	case rule.TokenBucketLLM != nil:
		a.tokenBucketLLM(x, rule.TokenBucketLLM)
	case rule.CostBased != nil:
		a.costBased(x, rule.CostBased)
	}
}

// ruleName is the rule's name; a fallback limit needs none of its own.
func ruleName(rule *bundle.Limit) string {
	if rule.Name == "" {
		return "fallback_limit"
	}
	return rule.Name
}

// limitKey names the counter for the values of a rule's descriptors. A claim
// that anyone can have written never shares one with a verified claim.
func (x *exchange) limitKey(rule *bundle.Limit) (key []byte, missing string) {
	b := fingerprint.New(limitDomain)
	b.Number(len(rule.Keys))
	for _, d := range rule.Keys {
		if value, ok := x.Descriptors.Get(d); !ok {
			return nil, d.String()
		} else if value.Unverified {
			b.String("unverified").String(d.String()).String(value.Text)
		} else {
			b.String("value").String(d.String()).String(value.Text)
		}
	}
	sum := b.Sum()
	return sum[:], ""
}

func (a *applied) tokenBucket(x *exchange, c *policy.TokenBucket) {
	a.wire.Cost = x.namedCost(c.CostSource, c.FixedCost, c.DefaultCost)
	a.wire.Bucket = &checkpb.Bucket{Rate: c.Rate(), Capacity: c.Burst}
}

// namedCost is a cost that the request names in a header or query parameter, or
// a fixed one.
func (x *exchange) namedCost(source string, fixed, standard float64) float64 {
	if source == "fixed" {
		return fixed
	}
	d, err := policy.ParseDescriptor(source)
	if err != nil {
		return standard
	}
	value, _ := x.Descriptors.Get(d)
	cost, err := strconv.ParseFloat(value.Text, 64)
	if err != nil || cost <= 0 || math.IsInf(cost, 0) || cost > maxCost {
		return standard // nobody gets anything back by naming a negative cost
	}
	return cost
}

// maxCost is the largest cost that a request can name.
const maxCost = 1e15

// tokenBucketLLM reserves the prompt's tokens and the longest answers that the
// request allows.
func (a *applied) tokenBucketLLM(x *exchange, c *policy.TokenBucketLLM) {
	input, output := x.estimate(c.TokenSource.Estimator), x.maxOutput(int(c.DefaultCompletion()), int(c.MaxCompletionTokens))
	switch {
	case c.MaxPromptTokens > 0 && int64(input) > c.MaxPromptTokens:
		a.oversized = "prompt_tokens_exceeded"
	case c.MaxTokensPerRequest > 0 && int64(input+output) > c.MaxTokensPerRequest:
		a.oversized = "max_tokens_per_request_exceeded"
	}
	w := a.wire
	w.Cost, w.Estimated, w.Oversized = float64(input+output), true, a.oversized != ""
	w.Bucket = &checkpb.Bucket{Rate: float64(c.TokensPerMinute) / 60, Capacity: float64(c.Burst())}
	if c.TokensPerDay > 0 {
		w.Budget = &checkpb.Budget{
			Amount: float64(c.TokensPerDay), PeriodSeconds: 24 * 60 * 60,
			Stages: []*checkpb.Stage{{Percent: 100, Action: checkpb.Action_ACTION_REJECT}},
		}
	}
	a.cost = func(u usage.Usage) float64 { return float64(u.Input + u.Output) }
}

// defaultOutput is what is reserved for an answer whose length nothing limits,
// in tokens, where a rule does not say: Fairvisor's default.
const defaultOutput = 1000

func (a *applied) costBased(x *exchange, c *policy.CostBased) {
	a.wire.Budget = &checkpb.Budget{Amount: c.Budget, PeriodSeconds: uint32(c.PeriodSeconds()), OffsetSeconds: uint32(c.OffsetSeconds())}
	for _, s := range c.StagedActions {
		a.wire.Budget.Stages = append(a.wire.Budget.Stages, &checkpb.Stage{
			Percent: s.ThresholdPercent, Action: actions[s.Action], DelayMs: uint32(s.DelayMS),
		})
	}
	if c.CostKey != "usd" {
		a.wire.Cost = x.namedCost(c.CostKey, c.FixedCost, c.DefaultCost)
		return
	}
	price, known := x.rules.Price(x.Model())
	if !known {
		a.wire.Cost = c.DefaultCost // a spend limit must not fail open on a new model
		return
	}
	a.wire.Cost, a.wire.Estimated = price.USD(x.estimate(""), 0, x.maxOutput(defaultOutput, 0)), true
	a.cost = func(u usage.Usage) float64 { return price.USD(u.Input, u.Cached, u.Output) }
}

// estimate is about how many tokens the request's prompt has.
func (x *exchange) estimate(estimator string) int {
	if estimator == "header_hint" {
		if n, err := strconv.Atoi(x.Header.Get("X-Token-Estimate")); err == nil && n > 0 && n <= maxTokens {
			return n
		}
	}
	return int(x.promptTokens())
}

// promptTokens estimates how many tokens the request's body has.
func (x *exchange) promptTokens() uint32 {
	if x.Body.Tokens == nil {
		n := uint32(min(usage.PromptTokens(x.Body.Inspected()), math.MaxUint32))
		x.Body.Tokens = &n
	}
	return *x.Body.Tokens
}

// asksModel reports whether the request asks a model for text, and so costs
// tokens: a prompt, or a path of OpenAI's that is none of the formats that are
// read. Lists, token counts, files and the polls of an answer cost nothing.
func (x *exchange) asksModel() bool {
	path := strings.TrimRight(x.Path, "/")
	return x.AsksPrompt() || x.Method == http.MethodPost &&
		(strings.HasSuffix(path, "/completions") || strings.HasSuffix(path, "/responses/compact"))
}

// maxTokens is more than any model takes or answers.
const maxTokens = 1 << 40

// maxAnswers is more than any provider gives to one request.
const maxAnswers = 1 << 10

// maxOutput returns how many tokens the request lets its answers have in all.
// Standard is for one whose length it does not limit, and most, where it is not 0,
// for any.
func (x *exchange) maxOutput(standard, most int) int {
	bounds := usage.Bounds{Answers: 1}
	if x.Uninspected == "" {
		bounds = usage.BoundsOf(x.Body.Inspected())
	}
	if bounds.Output > 0 {
		standard = min(bounds.Output, maxTokens)
	}
	if most > 0 {
		standard = min(standard, most)
	}
	return standard * min(bounds.Answers, maxAnswers)
}

// ruled is a rule of the check and what the detectors said of it.
type ruled struct {
	applied
	verdict *checkpb.LimitVerdict
}

// verdicts are the rules that the detectors evaluated.
func (x *exchange) verdicts() []ruled {
	all := x.decision.GetLimits()
	if len(all) != len(x.limits) {
		return nil // an older detector, or an answer from memory
	}
	out := make([]ruled, len(all))
	for i, v := range all {
		out[i] = ruled{x.limits[i], v}
	}
	return out
}

// enforced is the rule whose action is taken: the strongest, and of equal ones
// that with the longest wait. Shadow says whether to look at those that only
// watch.
func (x *exchange) enforced(shadow bool) (best ruled, ok bool) {
	for _, r := range x.verdicts() {
		if r.wire.GetShadow() != shadow || r.verdict.GetAction() == checkpb.Action_ACTION_ALLOW {
			continue
		}
		if !ok || r.verdict.GetAction() > best.verdict.GetAction() ||
			r.verdict.GetAction() == best.verdict.GetAction() && r.wait() > best.wait() {
			best, ok = r, true
		}
	}
	return best, ok
}

// wait is how long the rule keeps a request, in milliseconds.
func (r ruled) wait() uint64 {
	if r.verdict.GetAction() != checkpb.Action_ACTION_REJECT {
		return uint64(r.verdict.GetDelayMs())
	}
	if r.verdict.GetRetryAfterMs() == 0 {
		return math.MaxUint64 // waiting can't help
	}
	return r.verdict.GetRetryAfterMs()
}

// observe counts what the rules said.
func (g *Gateway) observe(x *exchange) {
	for _, r := range x.verdicts() {
		mode := "enforce"
		if r.wire.GetShadow() {
			mode = "shadow"
		}
		g.metrics.rules.WithLabelValues(r.wire.GetPolicy(), r.wire.GetRule(), mode, r.verdict.GetAction().Label()).Inc()
	}
}
