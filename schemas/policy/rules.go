package policy

import (
	"cmp"
	"encoding/json"
	"math"
)

// The algorithms of rules.
const (
	AlgorithmTokenBucket    = "token_bucket"
	AlgorithmTokenBucketLLM = "token_bucket_llm"
	AlgorithmCostBased      = "cost_based"
)

var algorithmNames = []string{AlgorithmTokenBucket, AlgorithmTokenBucketLLM, AlgorithmCostBased}

// Rule is a rate, token or cost limit. Exactly one of the three
// configurations is set, the one that Algorithm names; in a bundle it stands
// as algorithm_config.
type Rule struct {
	Name           string          `json:"name" check:"len=128" doc:"Name, unique in the policy, used in counters, answers and metrics. fallback_limit needs none."`
	LimitKeys      Strings         `json:"limit_keys" check:"required,descriptor" doc:"Descriptors. Each combination of their values has its own counter."`
	Algorithm      string          `json:"algorithm" check:"required,one=token_bucket|token_bucket_llm|cost_based" doc:"Kind of limit."`
	TokenBucket    *TokenBucket    `json:"-"`
	TokenBucketLLM *TokenBucketLLM `json:"-"`
	CostBased      *CostBased      `json:"-"`
	Match          map[string]Text `json:"match,omitempty" doc:"Descriptor values that a request must have for the rule to apply."`
}

// config returns the configuration of the rule's algorithm, nil if there is none.
func (r *Rule) config() any {
	switch {
	case r.TokenBucket != nil:
		return r.TokenBucket
	case r.TokenBucketLLM != nil:
		return r.TokenBucketLLM
	case r.CostBased != nil:
		return r.CostBased
	default:
		return nil
	}
}

// MarshalJSON writes the rule as a bundle has it, with algorithm_config.
func (r Rule) MarshalJSON() ([]byte, error) {
	type plain Rule
	return json.Marshal(struct {
		plain
		Config any `json:"algorithm_config"`
	}{plain(r), r.config()})
}

// TokenBucket limits requests a second. Each request takes its cost from a
// bucket of Burst tokens that refills at the rate.
type TokenBucket struct {
	Algorithm       string  `json:"algorithm,omitempty" check:"one=token_bucket" doc:"Same as the rule's algorithm."`
	TokensPerSecond float64 `json:"tokens_per_second,omitempty" check:"above=0,max=1e9" doc:"Rate."`
	RPS             float64 `json:"rps,omitempty" check:"above=0,max=1e9" doc:"Rate, if tokens_per_second is absent."`
	Burst           float64 `json:"burst" check:"required,above=0,max=1e9" doc:"Size of the bucket, at least the rate."`
	CostSource      string  `json:"cost_source" check:"source=fixed" default:"fixed" doc:"Source of a request's cost: fixed, header:NAME or query:NAME."`
	FixedCost       float64 `json:"fixed_cost" check:"above=0,max=1e9" default:"1" doc:"Cost of a request if cost_source is fixed."`
	DefaultCost     float64 `json:"default_cost" check:"above=0,max=1e9" default:"1" doc:"Cost of a request that does not name one."`
}

// Rate returns the refill in tokens a second.
func (t *TokenBucket) Rate() float64 {
	return cmp.Or(max(t.TokensPerSecond, 0), t.RPS)
}

// TokenBucketLLM limits model tokens a minute and a day. They are reserved
// before a request and corrected after it.
type TokenBucketLLM struct {
	Algorithm            string `json:"algorithm,omitempty" check:"one=token_bucket_llm" doc:"Same as the rule's algorithm."`
	TokensPerMinute      int64  `json:"tokens_per_minute" check:"required,min=1,max=1000000000000" doc:"Tokens per minute."`
	TokensPerDay         int64  `json:"tokens_per_day,omitempty" check:"min=1,max=1000000000000" doc:"Tokens per day (UTC). Default: no limit."`
	BurstTokens          int64  `json:"burst_tokens,omitempty" check:"min=1,max=1000000000000" doc:"Size of the bucket, at least tokens_per_minute. Default: tokens_per_minute."`
	MaxTokensPerRequest  int64  `json:"max_tokens_per_request,omitempty" check:"min=1,max=1000000000000" doc:"Largest number of tokens that a request may use in all."`
	MaxPromptTokens      int64  `json:"max_prompt_tokens,omitempty" check:"min=1,max=1000000000000" doc:"Longest prompt, in tokens."`
	MaxCompletionTokens  int64  `json:"max_completion_tokens,omitempty" check:"min=1,max=1000000000000" doc:"Largest reservation for an answer, in tokens."`
	DefaultMaxCompletion int64  `json:"default_max_completion,omitempty" check:"min=1,max=1000000000000" doc:"Reservation for an answer whose length the request does not limit, in tokens."`
	// DefaultMaxCompletionTokens is Fairvisor's other name for the same.
	DefaultMaxCompletionTokens int64       `json:"default_max_completion_tokens,omitempty" check:"min=1,max=1000000000000" doc:"Same as default_max_completion."`
	TokenSource                TokenSource `json:"token_source" doc:"How prompt tokens are estimated."`
}

// TokenSource says how the tokens of a prompt are estimated.
type TokenSource struct {
	Estimator string `json:"estimator" check:"one=simple_word|header_hint" default:"simple_word" doc:"simple_word counts four characters as a token; header_hint uses X-Token-Estimate."`
}

// Burst returns the size of the minute's bucket in tokens.
func (t *TokenBucketLLM) Burst() int64 {
	return cmp.Or(max(t.BurstTokens, 0), t.TokensPerMinute)
}

// DefaultCompletion returns the reservation, in tokens, for an answer if the request does
// not limit its length.
func (t *TokenBucketLLM) DefaultCompletion() int64 {
	return cmp.Or(max(t.DefaultMaxCompletion, 0), max(t.DefaultMaxCompletionTokens, 0), defaultMaxCompletion)
}

// CostBased limits spending in a fixed period, in stages.
type CostBased struct {
	Algorithm     string         `json:"algorithm,omitempty" check:"one=cost_based" doc:"Same as the rule's algorithm."`
	Budget        float64        `json:"budget" check:"required,above=0,max=1e15" doc:"Budget for a period, in US dollars if cost_key is usd."`
	Period        string         `json:"period" check:"required,one=5m|1h|1d|7d" doc:"Period of the budget."`
	CostKey       string         `json:"cost_key" check:"source=fixed|usd" default:"fixed" doc:"Source of a request's cost: fixed, header:NAME, query:NAME, or usd (its price, by the bundle's price table)."`
	FixedCost     float64        `json:"fixed_cost" check:"above=0,max=1e15" default:"1" doc:"Cost of a request if cost_key is fixed."`
	DefaultCost   float64        `json:"default_cost" check:"above=0,max=1e15" default:"1" doc:"Cost of a request that does not name one."`
	StagedActions []StagedAction `json:"staged_actions" check:"required" doc:"Actions by share of the budget; one must reject at 100."`
}

// StagedAction is the action from a share of the budget on.
type StagedAction struct {
	ThresholdPercent float64 `json:"threshold_percent" check:"required,min=0,max=100" doc:"Percent of the budget."`
	Action           Action  `json:"action" check:"required,one=warn|throttle|reject" doc:"Action."`
	DelayMS          int     `json:"delay_ms,omitempty" check:"min=1,max=30000" doc:"How long a throttle waits, in milliseconds."`
}

// periods are the lengths of periods in seconds.
var periods = map[string]int64{"5m": 5 * 60, "1h": 60 * 60, "1d": 24 * 60 * 60, "7d": 7 * 24 * 60 * 60}

// PeriodSeconds returns the length of the period, which is a day where none is given.
func (c *CostBased) PeriodSeconds() int64 { return cmp.Or(periods[c.Period], periods["1d"]) }

// OffsetSeconds returns by how much the budget's periods are shifted from multiples of their
// length since the Unix epoch: weeks begin on Mondays, and the epoch began on a Thursday.
func (c *CostBased) OffsetSeconds() int64 {
	if c.Period == "7d" {
		return 4 * 24 * 60 * 60
	}
	return 0
}

// CircuitBreaker is Fairvisor's spend rate breaker. It counts the cost by the policy's
// first rule, for each value of that rule's first limit key; without rules it counts all
// requests together.
type CircuitBreaker struct {
	Enabled               bool    `json:"enabled" doc:"Turns the block on."`
	SpendRatePerMinute    float64 `json:"spend_rate_threshold_per_minute" check:"required,above=0,max=1e15" doc:"Spending per minute at which the breaker opens, in the unit of the policy's first rule."`
	Action                Action  `json:"action" check:"one=reject" default:"reject" doc:"Action while the breaker is open."`
	AutoResetAfterMinutes float64 `json:"auto_reset_after_minutes" check:"min=0,max=500000" doc:"Minutes after which the breaker closes by itself; 0 if only an operator closes it."`
	Alert                 bool    `json:"alert" doc:"Logs a warning when the breaker opens, in addition to its event."`
}

// ResetSeconds returns the time after which an open breaker closes by itself, in whole
// seconds and at least one; 0 if it does not.
func (c *CircuitBreaker) ResetSeconds() uint32 {
	return uint32(math.Ceil(c.AutoResetAfterMinutes * 60))
}
