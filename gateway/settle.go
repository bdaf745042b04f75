package gateway

import (
	"net/http"
	"time"

	"github.com/unloop/unloop/gateway/internal/answerscan"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/usage"
	"github.com/unloop/unloop/schemas/checkpb"
)

// reserved are the rules that took an estimate for the request.
func (x *exchange) reserved() []evidence.Verdict {
	var out []evidence.Verdict
	for _, r := range evidence.Verdicts(x.Limits, x.Decision) {
		if r.Cost != nil && r.GetTaken() {
			out = append(out, r)
		}
	}
	return out
}

// giveBack settles a request that cost nothing: it was not forwarded, or came to
// nothing.
func (g *Gateway) giveBack(x *exchange) { g.settle(x, func(evidence.Verdict) float64 { return 0 }) }

// settle tells the detectors what estimates were wrong by. It does so once.
func (g *Gateway) settle(x *exchange, cost func(evidence.Verdict) float64) {
	corrections := x.corrections(cost, g.now())
	x.Limits = nil
	if len(corrections) > 0 && x.later.settlesNow() {
		g.checker.Correct(corrections)
	}
}

// withdrawn is the id of a check that gives back what it took; "" for requests.
func (x *exchange) withdrawn() string {
	if x.Asked {
		return x.Check.GetRequestId()
	}
	return ""
}

// corrections are what the estimates of a request were wrong by.
func (x *exchange) corrections(cost func(evidence.Verdict) float64, now time.Time) []*checkpb.Correction {
	var out []*checkpb.Correction
	for _, r := range x.reserved() {
		if delta := cost(r) - r.Wire.GetCost(); delta != 0 {
			out = append(out, &checkpb.Correction{
				Limit: r.Wire, Delta: delta, AgeMs: uint64(max(now.Sub(x.At), 0) / time.Millisecond), RequestId: x.withdrawn(),
			})
		}
	}
	return out
}

// watchUsage returns the watcher that corrects the reservations of a request by the usage
// in its answer, as far as it came before the client left or the upstream broke off.
// Without usage the reservations stand; a request that failed cost nothing.
func (g *Gateway) watchUsage(x *exchange, res *http.Response) []answerscan.Watcher {
	switch {
	case len(x.reserved()) == 0 && !x.recording:
	case res.StatusCode >= http.StatusBadRequest:
		g.giveBack(x)
	case res.StatusCode == http.StatusSwitchingProtocols: // what follows is no answer
	default:
		return []answerscan.Watcher{usage.Meter(func(u usage.Usage, found bool) {
			if found {
				x.usage = u
				g.settle(x, func(r evidence.Verdict) float64 { return r.Cost(u) })
			}
		})}
	}
	return nil
}
