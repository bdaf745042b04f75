package gateway

import (
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/memory/recording"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/record"
)

// record writes a request to the recording, with the action of its strongest finding, and
// returns a function that writes the answer.
func (g *Gateway) record(e *exchange, a *account.Account, f *checkpb.Finding) (answered func()) {
	if g.recorder == nil {
		return func() {}
	}
	hash := func(string) string { return "unknown" } // without a key, all names are alike
	if hasher := g.shared.Hasher(); hasher != nil {
		hash = hasher.Pseudonym
	}
	entry := recording.Entry{
		Request: *e.req, Subject: e.from, URL: e.http.URL, At: g.now(), Headers: e.rules.Headers, Check: e.evidence.Check, Operator: e.operator.Operator, Hash: hash,
	}
	if f != nil {
		entry.Action = f.GetAction().Label()
	}
	id := g.recorder.Request(entry)
	if id == "" {
		return func() {}
	}
	a.Metered = true
	rules := e.rules
	return func() {
		line := record.Answer{
			To: id, Time: g.now(), Status: a.Status,
			InputTokens: a.Usage.Input, CachedTokens: a.Usage.Cached, OutputTokens: a.Usage.Output,
		}
		if price, known := rules.Price(a.Request.Model()); known {
			line.USD = price.USD(line.InputTokens, line.CachedTokens, line.OutputTokens)
		}
		g.recorder.Answer(line)
	}
}
