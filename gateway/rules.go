package gateway

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// limitDomain is the domain of the hashes that name a rule's counters.
const limitDomain = "unloop/limit/1"

// limits lists the rules of the matching policies that apply to this request.
func (g *Gateway) limits(x *exchange, policies []*bundle.Policy, now time.Time) []evidence.Limit {
	var out []evidence.Limit
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
func (g *Gateway) apply(out []evidence.Limit, x *exchange, policyID string, rule *bundle.Limit, shadow bool) []evidence.Limit {
	if rule.Metered() && !x.asksModel() {
		return out
	}
	key, missing := x.limitKey(rule)
	if missing != "" {
		g.metrics.descriptorMissing.WithLabelValues(policyID, ruleName(rule), missing).Inc()
		return out
	}
	a := evidence.Limit{Rule: rule, Wire: &checkpb.Limit{Policy: policyID, Rule: ruleName(rule), Key: key, Shadow: shadow}}
	x.limit(&a)
	return append(out, a)
}

// limit sets the cost and the limits of the rule's algorithm.
func (x *exchange) limit(a *evidence.Limit) {
	switch rule := a.Rule; {
	case rule.TokenBucket != nil:
		x.tokenBucket(a, rule.TokenBucket)
	case rule.TokenBucketLLM != nil:
		x.tokenBucketLLM(a, rule.TokenBucketLLM)
	case rule.CostBased != nil:
		x.costBased(a, rule.CostBased)
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

func (x *exchange) tokenBucket(a *evidence.Limit, c *policy.TokenBucket) {
	a.Wire.Cost = x.namedCost(c.CostSource, c.FixedCost, c.DefaultCost)
	a.Wire.Bucket = &checkpb.Bucket{Rate: c.Rate(), Capacity: c.Burst}
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
func (x *exchange) tokenBucketLLM(a *evidence.Limit, c *policy.TokenBucketLLM) {
	input, output := x.estimate(c.TokenSource.Estimator), x.maxOutput(int(c.DefaultCompletion()), int(c.MaxCompletionTokens))
	switch {
	case c.MaxPromptTokens > 0 && int64(input) > c.MaxPromptTokens:
		a.Oversized = "prompt_tokens_exceeded"
	case c.MaxTokensPerRequest > 0 && int64(input+output) > c.MaxTokensPerRequest:
		a.Oversized = "max_tokens_per_request_exceeded"
	}
	w := a.Wire
	w.Cost, w.Estimated, w.Oversized = float64(input+output), true, a.Oversized != ""
	w.Bucket = &checkpb.Bucket{Rate: float64(c.TokensPerMinute) / 60, Capacity: float64(c.Burst())}
	if c.TokensPerDay > 0 {
		w.Budget = &checkpb.Budget{
			Amount: float64(c.TokensPerDay), PeriodSeconds: 24 * 60 * 60,
			Stages: []*checkpb.Stage{{Percent: 100, Action: checkpb.Action_ACTION_REJECT}},
		}
	}
	a.Cost = func(u usage.Usage) float64 { return float64(u.Input + u.Output) }
}

// defaultOutput is what is reserved for an answer whose length nothing limits,
// in tokens, where a rule does not say: Fairvisor's default.
const defaultOutput = 1000

func (x *exchange) costBased(a *evidence.Limit, c *policy.CostBased) {
	a.Wire.Budget = &checkpb.Budget{Amount: c.Budget, PeriodSeconds: uint32(c.PeriodSeconds()), OffsetSeconds: uint32(c.OffsetSeconds())}
	for _, s := range c.StagedActions {
		a.Wire.Budget.Stages = append(a.Wire.Budget.Stages, &checkpb.Stage{
			Percent: s.ThresholdPercent, Action: actions[s.Action], DelayMs: uint32(s.DelayMS),
		})
	}
	if c.CostKey != "usd" {
		a.Wire.Cost = x.namedCost(c.CostKey, c.FixedCost, c.DefaultCost)
		return
	}
	price, known := x.rules.Price(x.Model())
	if !known {
		a.Wire.Cost = c.DefaultCost // a spend limit must not fail open on a new model
		return
	}
	a.Wire.Cost, a.Wire.Estimated = price.USD(x.estimate(""), 0, x.maxOutput(defaultOutput, 0)), true
	a.Cost = func(u usage.Usage) float64 { return price.USD(u.Input, u.Cached, u.Output) }
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
