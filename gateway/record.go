package gateway

import (
	"github.com/unloop/unloop/gateway/internal/recording"
	"github.com/unloop/unloop/schemas/record"
)

// record writes a request to the recording before forwarding may change its body.
// The function that it returns writes the answer.
func (g *Gateway) record(x *exchange) (answered func()) {
	if g.recorder == nil {
		return func() {}
	}
	hash := func(string) string { return "unknown" } // without a key, all names are alike
	if hasher := g.shared.Hasher(); hasher != nil {
		hash = hasher.Pseudonym
	}
	e := recording.Entry{
		Request: x.Request, Subject: x.Subject, URL: x.r.URL, At: g.now(), Headers: x.rules.Headers, Check: x.Check, Operator: x.operator.Operator, Hash: hash,
	}
	if x.out.Finding != nil {
		e.Action = x.out.Finding.GetAction().Label()
	}
	id := g.recorder.Request(e)
	if id == "" {
		return func() {}
	}
	x.account.Metered = true
	return func() {
		a := record.Answer{
			To: id, Time: g.now(), Status: x.account.Status,
			InputTokens: x.account.Usage.Input, CachedTokens: x.account.Usage.Cached, OutputTokens: x.account.Usage.Output,
		}
		if price, known := x.rules.Price(x.Model()); known {
			a.USD = price.USD(a.InputTokens, a.CachedTokens, a.OutputTokens)
		}
		g.recorder.Answer(a)
	}
}
