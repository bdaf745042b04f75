package checkpb

import (
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// exchangeDomain is the domain of the digests of exchanges.
const exchangeDomain = "unloop/exchange/1"

// OutcomeOf is what is told of a counted check whose request came to nothing.
func OutcomeOf(check *Check) *Outcome {
	o := &Outcome{Counters: check.GetCounters(), Semantics: check.GetSemantics()}
	if len(o.GetSemantics()) > 0 {
		o.Text = TextDigest(check.GetExchange())
	}
	return o
}

// TextDigest tells one exchange from another, in 16 bytes.
func TextDigest(e *semanticpb.Exchange) []byte {
	sum := fingerprint.New(exchangeDomain).String(e.GetSaid()).String(e.GetAnswered()).Sum()
	return sum[:16]
}
