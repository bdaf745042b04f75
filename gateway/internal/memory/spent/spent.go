// Package spent remembers the usage that providers report. It estimates the usage of a
// stopped request from the newest answer of the same model to the same caller.
//
// It does not know prices, or which requests are stopped.
package spent

import (
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

const (
	// maxAskers is the maximum number of pairs of caller and model, and ttl the time for
	// which the newest answer of each is kept.
	maxAskers = 10_000
	ttl       = time.Hour
	// interval is the minimum time between two answers to one caller that are read.
	interval = time.Second
)

// Cache has the newest usage by caller and model. It is safe for concurrent use.
type Cache struct {
	answers *otter.Cache[asker, answer]
}

type asker struct{ caller, model string }

// answer is the usage of an answer, with the estimated number of tokens of its request.
type answer struct {
	asked    time.Time
	estimate int
	usage    usage.Usage
}

// New returns an empty cache.
func New() *Cache {
	return &Cache{otter.Must(&otter.Options[asker, answer]{MaximumSize: maxAskers, ExpiryCalculator: otter.ExpiryWriting[asker, answer](ttl)})}
}

// Wants reports whether to read the usage in the answer to a caller. After that it returns
// false for a while.
func (c *Cache) Wants(caller, model string, now time.Time) bool {
	a, known := c.answers.GetIfPresent(asker{caller, model})
	if caller == "" || model == "" || known && now.Sub(a.asked) < interval {
		return false
	}
	a.asked = now
	c.answers.Set(asker{caller, model}, a)
	return true
}

// Keep keeps the usage of an answer. estimate is the estimated number of tokens of its
// request.
func (c *Cache) Keep(caller, model string, estimate int, u usage.Usage) {
	if estimate <= 0 || u.Input <= 0 {
		return
	}
	a, _ := c.answers.GetIfPresent(asker{caller, model})
	a.estimate, a.usage = estimate, u
	c.answers.Set(asker{caller, model}, a)
}

// Expect returns the expected usage of a request, given the estimated number of its tokens.
// It returns the estimate if there was no earlier answer.
func (c *Cache) Expect(caller, model string, estimate int) usage.Usage {
	a, _ := c.answers.GetIfPresent(asker{caller, model})
	if a.estimate == 0 {
		return usage.Usage{Input: estimate}
	}
	of := func(tokens int) int { return int(float64(estimate) * float64(tokens) / float64(a.estimate)) }
	return usage.Usage{Input: of(a.usage.Input), Cached: of(a.usage.Cached), Output: a.usage.Output}
}
