package checkpb

import (
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// exchangeDomain is the domain of the digests of exchanges.
const exchangeDomain = "unloop/exchange/1"

// OutcomeOf returns the outcome of a counted check whose request got no answer from its
// upstream.
func OutcomeOf(check *Check) *Outcome {
	o := &Outcome{Counters: check.GetCounters(), Semantics: check.GetSemantics()}
	if len(o.GetSemantics()) > 0 {
		o.Text = TextDigest(check.GetExchange())
	}
	return o
}

// Reportable returns the parts of a check that an outcome needs, without its histories.
func (c *Check) Reportable() *Check {
	if c == nil {
		return nil
	}
	out := &Check{RequestId: c.GetRequestId(), Counters: c.GetCounters(), Semantics: c.GetSemantics()}
	if e := c.GetExchange(); e != nil {
		out.Exchange = &semanticpb.Exchange{Said: e.GetSaid(), Answered: e.GetAnswered()}
	}
	return out
}

// TextDigest returns the digest of the two halves of an exchange.
func TextDigest(e *semanticpb.Exchange) []byte {
	d := fingerprint.New(exchangeDomain).String(e.GetSaid()).String(e.GetAnswered()).Sum().Digest()
	return d[:]
}
