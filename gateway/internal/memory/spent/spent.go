// Package spent remembers the usage that providers report. It estimates the cost of a stopped
// request from the newest answer to the same caller by the same model.
//
// It does not know prices, or which requests are stopped.
package spent

import (
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

const (
	// callers bounds the pairs of caller and model whose newest answer is kept; kept is how
	// long it is.
	callers = 10_000
	kept    = time.Hour
	// pause is the least time between two answers of one caller that are read.
	pause = time.Second
)

// Book has the newest usage by caller and model. It is safe for concurrent use.
type Book struct {
	answers *otter.Cache[asker, answer]
}

type asker struct{ caller, model string }

// answer is the usage of an answer. estimate is the estimated number of tokens of its request.
type answer struct {
	asked    time.Time
	estimate int
	usage    usage.Usage
}

// New returns an empty book.
func New() *Book {
	return &Book{otter.Must(&otter.Options[asker, answer]{MaximumSize: callers, ExpiryCalculator: otter.ExpiryWriting[asker, answer](kept)})}
}

// Wants reports whether the usage in the answer to a caller is to be read. If so, it is the only
// one for a while.
func (b *Book) Wants(caller, model string, now time.Time) bool {
	a, known := b.answers.GetIfPresent(asker{caller, model})
	if caller == "" || model == "" || known && now.Sub(a.asked) < pause {
		return false
	}
	a.asked = now
	b.answers.Set(asker{caller, model}, a)
	return true
}

// Keep keeps the usage of an answer. estimate is the estimated number of tokens of its request.
func (b *Book) Keep(caller, model string, estimate int, u usage.Usage) {
	if estimate <= 0 || u.Input <= 0 {
		return
	}
	a, _ := b.answers.GetIfPresent(asker{caller, model})
	a.estimate, a.usage = estimate, u
	b.answers.Set(asker{caller, model}, a)
}

// Expect returns the expected usage of a request with an estimated number of tokens. Without an
// earlier answer it is the estimate.
func (b *Book) Expect(caller, model string, estimate int) usage.Usage {
	a, _ := b.answers.GetIfPresent(asker{caller, model})
	if a.estimate == 0 {
		return usage.Usage{Input: estimate}
	}
	of := func(tokens int) int { return int(float64(estimate) * float64(tokens) / float64(a.estimate)) }
	return usage.Usage{Input: of(a.usage.Input), Cached: of(a.usage.Cached), Output: a.usage.Output}
}
