package evidence

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// limitDomain is the domain of the hashes that are the keys of a rule's counters.
const limitDomain = "unloop/limit/1"

// Limit is a policy's rule that applies to a request, and its entry in the check.
type Limit struct {
	Rule *bundle.Limit
	Wire *checkpb.Limit
	// Cost returns the cost of an answer in the rule's unit; nil if the cost is known before
	// the answer.
	Cost func(usage.Usage) float64
	// Oversized says why the rule never allows a request of this size; "" if it does.
	Oversized string
}

// Verdict is a limit with the detector's verdict on it.
type Verdict struct {
	Limit
	*checkpb.LimitVerdict
}

// Verdicts pairs the limits of a check with the verdicts of its decision. It returns nil for
// a decision without verdicts: of an older detector, or from memory.
func Verdicts(limits []Limit, d *checkpb.Decision) []Verdict {
	all := d.GetLimits()
	if len(all) != len(limits) {
		return nil
	}
	out := make([]Verdict, len(all))
	for i, v := range all {
		out[i] = Verdict{limits[i], v}
	}
	return out
}

// Skipped is a rule for which a request lacks a descriptor.
type Skipped struct {
	Policy string
	Rule   *bundle.Limit
	// Missing is the descriptor.
	Missing string
}

// limits adds the rules of the matching policies that apply to the request. No rule applies
// to a tool runner's call.
func (m *maker) limits() {
	if m.Run != nil {
		return
	}
	for _, p := range m.Matched {
		if p.Breaker != nil {
			m.out.Limits = append(m.out.Limits, m.breaker(p))
		}
		for _, rule := range m.rules(p) {
			m.apply(p, rule)
		}
	}
}

// rules returns a policy's rules that match the request, or else its fallback limit.
func (m *maker) rules(p *bundle.Policy) []*bundle.Limit {
	var out []*bundle.Limit
	for i := range p.Rules {
		if m.holds(p.Rules[i].Conditions) {
			out = append(out, &p.Rules[i])
		}
	}
	if len(out) == 0 && p.Fallback != nil {
		out = append(out, p.Fallback)
	}
	return out
}

// holds reports whether the request meets all conditions.
func (m *maker) holds(conditions []bundle.Condition) bool {
	return !slices.ContainsFunc(conditions, func(c bundle.Condition) bool {
		value, ok := m.Descriptors.Get(c.Descriptor)
		return !ok || value.Text != c.Value
	})
}

// apply adds a rule, unless the request lacks one of its descriptors or costs nothing in the
// rule's unit.
func (m *maker) apply(p *bundle.Policy, rule *bundle.Limit) {
	if rule.Metered() && !m.AsksModel() {
		return
	}
	key, missing := m.limitKey(rule)
	if missing != "" {
		m.out.Skipped = append(m.out.Skipped, Skipped{p.ID, rule, missing})
		return
	}
	l := Limit{Rule: rule, Wire: &checkpb.Limit{Policy: p.ID, Rule: rule.Name, Key: key, Shadow: m.shadow(p)}}
	m.limit(&l)
	m.out.Limits = append(m.out.Limits, l)
}

// limit sets the cost and the limits of the rule's algorithm.
func (m *maker) limit(a *Limit) {
	switch rule := a.Rule; {
	case rule.TokenBucket != nil:
		m.tokenBucket(a, rule.TokenBucket)
	case rule.TokenBucketLLM != nil:
		m.tokenBucketLLM(a, rule.TokenBucketLLM)
	case rule.CostBased != nil:
		m.costBased(a, rule.CostBased)
	}
}

// limitKey returns the key of the counter for the values of a rule's descriptors; missing is
// the descriptor that the request lacks. An unverified claim, which anyone can forge, never
// shares a counter with a verified one.
func (m *maker) limitKey(rule *bundle.Limit) (key []byte, missing string) {
	b := fingerprint.New(limitDomain)
	b.Number(len(rule.Keys))
	for _, d := range rule.Keys {
		if value, ok := m.Descriptors.Get(d); !ok {
			return nil, d.String()
		} else if value.Unverified {
			b.String("unverified").String(d.String()).String(value.Text)
		} else {
			b.String("value").String(d.String()).String(value.Text)
		}
	}
	return b.Sum().Bytes(), ""
}

func (m *maker) tokenBucket(a *Limit, c *policy.TokenBucket) {
	a.Wire.Cost = m.namedCost(c.CostSource, c.FixedCost, c.DefaultCost)
	a.Wire.Bucket = &checkpb.Bucket{Rate: c.Rate(), Capacity: c.Burst}
}

// namedCost returns the fixed cost, or the cost that the request names in a header or query
// parameter. standard is the cost of requests that name none.
func (m *maker) namedCost(source string, fixed, standard float64) float64 {
	if source == "fixed" {
		return fixed
	}
	d, err := policy.ParseDescriptor(source)
	if err != nil {
		return standard
	}
	value, _ := m.Descriptors.Get(d)
	cost, err := strconv.ParseFloat(value.Text, 64)
	if err != nil || cost <= 0 || math.IsInf(cost, 0) || cost > maxCost {
		return standard // a negative cost would give something back
	}
	return cost
}

// maxCost is the highest cost that a request can name.
const maxCost = 1e15

// tokenBucketLLM reserves the tokens of the prompt and of the longest answers that the
// request allows.
func (m *maker) tokenBucketLLM(a *Limit, c *policy.TokenBucketLLM) {
	input, output := m.estimate(c.TokenSource.Estimator), m.maxOutput(int(c.DefaultCompletion()), int(c.MaxCompletionTokens))
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

// defaultOutput is the number of tokens that are reserved for an answer if neither the
// request nor the rule limits its length: Fairvisor's default.
const defaultOutput = 1000

func (m *maker) costBased(a *Limit, c *policy.CostBased) {
	a.Wire.Budget = &checkpb.Budget{Amount: c.Budget, PeriodSeconds: uint32(c.PeriodSeconds()), OffsetSeconds: uint32(c.OffsetSeconds())}
	for _, s := range c.StagedActions {
		a.Wire.Budget.Stages = append(a.Wire.Budget.Stages, &checkpb.Stage{
			Percent: s.ThresholdPercent, Action: action(s.Action), DelayMs: uint32(s.DelayMS),
		})
	}
	if c.CostKey != "usd" {
		a.Wire.Cost = m.namedCost(c.CostKey, c.FixedCost, c.DefaultCost)
		return
	}
	price, known := m.Policies.Price(m.Model())
	if !known {
		a.Wire.Cost = c.DefaultCost // a spend limit must not fail open on a new model
		return
	}
	a.Wire.Cost, a.Wire.Estimated = price.USD(m.estimate(""), 0, m.maxOutput(defaultOutput, 0)), true
	a.Cost = func(u usage.Usage) float64 { return price.USD(u.Input, u.Cached, u.Output) }
}

// estimate returns the approximate number of tokens of the prompt.
func (m *maker) estimate(estimator string) int {
	if estimator == "header_hint" {
		if n, err := strconv.Atoi(m.Header.Get("X-Token-Estimate")); err == nil && n > 0 && n <= usage.MaxTokens {
			return n
		}
	}
	return cmp.Or(m.tokens().Prompt, int(m.Body.PromptTokens()))
}

// maxOutput returns the maximum number of tokens of all answers to the request.
func (m *maker) maxOutput(standard, most int) int { return m.tokens().MaxOutput(standard, most) }

// tokens returns the bounds that the request's body sets on its tokens.
func (m *maker) tokens() usage.Bounds {
	if m.Uninspected != "" {
		return usage.Bounds{Answers: 1}
	}
	return m.Body.Bounds()
}

// breakerDomain is the domain of the hashes that are the keys of circuit breakers.
const breakerDomain = "unloop/breaker/1"

// breakerRule is the rule of a circuit breaker that counts requests.
var breakerRule = &bundle.Limit{Rule: &policy.Rule{Name: finding.CircuitBreaker, Algorithm: finding.CircuitBreaker}}

// breaker returns a policy's circuit breaker as a limit. The request costs what it costs
// in the policy's first rule, and nothing where that rule counts tokens and the request
// asks no model.
func (m *maker) breaker(p *bundle.Policy) Limit {
	l := Limit{Rule: breakerRule, Wire: &checkpb.Limit{Policy: p.ID, Key: m.breakerKey(p.Breaker), Shadow: m.shadow(p), Cost: 1}}
	if rule := p.Breaker.Cost; rule != nil {
		l.Rule, l.Wire.Cost = rule, 0
		if !rule.Metered() || m.AsksModel() {
			m.limit(&l)
		}
	}
	w := l.Wire
	w.Rule, w.Bucket, w.Budget, w.Oversized, l.Oversized = finding.CircuitBreaker, nil, nil, false, ""
	w.Breaker = &checkpb.Breaker{Threshold: p.Breaker.SpendRatePerMinute, ResetSeconds: p.Breaker.ResetSeconds()}
	return l
}

// breakerKey returns the key of the breaker for the value of its descriptor. Requests
// without a value share a breaker.
func (m *maker) breakerKey(b *bundle.Breaker) []byte {
	f := fingerprint.New(breakerDomain)
	if b.Key != (policy.Descriptor{}) {
		f.String(b.Key.String()).String(m.descriptor(b.Key))
	}
	return f.Sum().Bytes()
}
