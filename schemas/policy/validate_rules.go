package policy

import (
	"fmt"
	"reflect"
	"slices"
)

// checkBlock checks a rule as a whole, its configuration included.
func (r *Rule) checkBlock(rep *report, path string) {
	if len(r.LimitKeys) == 0 {
		rep.fault(join(path, "limit_keys"), "limit_keys must name at least one descriptor")
	}
	for _, key := range sortedKeys(r.Match) {
		at := join(path, "match."+key)
		if _, err := ParseDescriptor(key); err != nil {
			rep.fault(at, err.Error())
		}
	}
	r.checkConfig(rep, join(path, "algorithm_config"))
}

func (r *Rule) checkConfig(rep *report, path string) {
	config := r.config()
	switch {
	case config != nil:
		rep.walk(reflect.ValueOf(config), path, constraint{}, false)
	case slices.Contains(algorithmNames, r.Algorithm):
		rep.fault(path, "algorithm_config is required")
	}
}

func (t *TokenBucket) checkBlock(r *report, path string) {
	switch {
	case t.Rate() == 0 && !r.faulty[join(path, "tokens_per_second")] && !r.faulty[join(path, "rps")]:
		r.fault(join(path, "tokens_per_second"), "tokens_per_second or rps is required")
	case t.Burst < t.Rate():
		r.fault(join(path, "burst"), "burst must be >= the rate, "+format(t.Rate()))
	}
}

func (t *TokenBucketLLM) checkBlock(r *report, path string) {
	if t.Burst() < t.TokensPerMinute {
		r.fault(join(path, "burst_tokens"), fmt.Sprintf("burst_tokens must be >= tokens_per_minute, %d", t.TokensPerMinute))
	}
	a, b := t.DefaultMaxCompletion, t.DefaultMaxCompletionTokens
	if a > 0 && b > 0 && a != b {
		r.fault(join(path, "default_max_completion_tokens"),
			"default_max_completion_tokens and default_max_completion are one setting, and differ")
	}
}

func (c *CostBased) checkBlock(r *report, path string) {
	at := join(path, "staged_actions")
	rejects := false
	for i, s := range c.StagedActions {
		step := fmt.Sprintf("%s[%d]", at, i)
		if i > 0 && s.ThresholdPercent <= c.StagedActions[i-1].ThresholdPercent {
			r.fault(step+".threshold_percent", fmt.Sprintf("threshold_percent must be > %s, that of the previous stage",
				format(c.StagedActions[i-1].ThresholdPercent)))
		}
		if s.Action == Throttle && s.DelayMS == 0 {
			r.fault(step+".delay_ms", "delay_ms is required when action is throttle")
		}
		rejects = rejects || s.Action == Reject && s.ThresholdPercent == 100
	}
	if !rejects {
		r.fault(at, "staged_actions must have one with threshold_percent 100 and action reject")
	}
}
