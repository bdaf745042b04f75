package gateway

import (
	"context"
	"time"

	"github.com/unloop/unloop/gateway/internal/answerscan"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/usage"
	"github.com/unloop/unloop/schemas/checkpb"
)

// reservations are what rules took, as it is kept until an answer in background mode
// says what it cost.
func reservations(reserved []evidence.Verdict) []*checkpb.Reservation {
	out := make([]*checkpb.Reservation, len(reserved))
	for i, r := range reserved {
		out[i] = &checkpb.Reservation{
			Limit: r.Wire, Input: r.Cost(usage.Usage{Input: 1}), Cached: r.Cost(usage.Usage{Input: 1, Cached: 1}), Output: r.Cost(usage.Usage{Output: 1}),
		}
	}
	return out
}

// settleFetched returns the watcher that corrects the reservations for an answer that is
// fetched: by its usage, and to nothing if it failed. An unfinished answer has neither.
func (a *answerWatch) settleFetched(id string) []answerscan.Watcher {
	if len(a.asker.GetReserved()) == 0 {
		return nil
	}
	settle := func(u usage.Usage) {
		if corrections := a.corrections(u); len(corrections) > 0 && a.settles(id) {
			a.g.checker.Correct(corrections)
		}
	}
	a.failed = func() { settle(usage.Usage{}) }
	return []answerscan.Watcher{usage.Meter(func(u usage.Usage, found bool) {
		if found {
			settle(u)
		}
	})}
}

// corrections are what the reservations for the answer were wrong by.
func (a *answerWatch) corrections(u usage.Usage) []*checkpb.Correction {
	var out []*checkpb.Correction
	age := max(a.g.now().Sub(time.UnixMilli(a.asker.GetReservedAt())), 0)
	for _, r := range a.asker.GetReserved() {
		cost := float64(u.Input-u.Cached)*r.GetInput() + float64(u.Cached)*r.GetCached() + float64(u.Output)*r.GetOutput()
		if delta := cost - r.GetLimit().GetCost(); delta != 0 {
			out = append(out, &checkpb.Correction{Limit: r.GetLimit(), Delta: delta, AgeMs: uint64(age / time.Millisecond)})
		}
	}
	return out
}

// settlesNow returns whether a request's cost is to be settled by the answer that it
// has now: that of one in background mode is settled once, here or where it is fetched.
func (a *answerWatch) settlesNow() bool { return a == nil || a.id == "" || a.settles(a.id) }

// settles returns whether nobody has settled the answer's cost before. Where that can't
// be found out, the estimate stands.
func (a *answerWatch) settles(id string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), a.g.cfg.CheckTimeout)
	defer cancel()
	first, err := a.g.answers.Finish(ctx, a.fetcher, id)
	if err != nil {
		a.g.metrics.lostAnswers.Inc()
	}
	return first
}
