package account

import (
	"net/http"
	"time"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Reserved returns the rules that reserved an estimate of a request's cost.
func Reserved(limits []evidence.Limit, d *checkpb.Decision) []evidence.Verdict {
	var out []evidence.Verdict
	for _, v := range evidence.Verdicts(limits, d) {
		if v.Cost != nil && v.GetTaken() {
			out = append(out, v)
		}
	}
	return out
}

// Corrections returns the corrections of reservations to the real cost, which is zero if u is
// nil. id is the id of a check that gives back its reservation; "" for requests.
func Corrections(reserved []evidence.Verdict, u *usage.Usage, made, now time.Time, id string) []*checkpb.Correction {
	var out []*checkpb.Correction
	for _, v := range reserved {
		cost := 0.0
		if u != nil {
			cost = v.Cost(*u)
		}
		out = correct(out, v.Wire, cost, made, now, id)
	}
	return out
}

// correct appends the correction of a reservation, unless it was right.
func correct(out []*checkpb.Correction, l *checkpb.Limit, cost float64, made, now time.Time, id string) []*checkpb.Correction {
	if delta := cost - l.GetCost(); delta != 0 {
		out = append(out, &checkpb.Correction{Limit: l, Delta: delta, AgeMs: uint64(max(now.Sub(made), 0) / time.Millisecond), RequestId: id})
	}
	return out
}

// stored returns reservations in the form in which they are stored until an answer in
// background mode is fetched.
func stored(reserved []evidence.Verdict) []*checkpb.Reservation {
	out := make([]*checkpb.Reservation, len(reserved))
	for i, v := range reserved {
		out[i] = &checkpb.Reservation{
			Limit: v.Wire, Input: v.Cost(usage.Usage{Input: 1}), Cached: v.Cost(usage.Usage{Input: 1, Cached: 1}), Output: v.Cost(usage.Usage{Output: 1}),
		}
	}
	return out
}

// storedCorrections is Corrections for stored reservations.
func storedCorrections(asker *checkpb.AnswerAsker, u usage.Usage, now time.Time) []*checkpb.Correction {
	var out []*checkpb.Correction
	for _, r := range asker.GetReserved() {
		cost := float64(u.Input-u.Cached)*r.GetInput() + float64(u.Cached)*r.GetCached() + float64(u.Output)*r.GetOutput()
		out = correct(out, r.GetLimit(), cost, time.UnixMilli(asker.GetReservedAt()), now, "")
	}
	return out
}

// Uncounted reports whether requests with this status of the upstream do not count, because
// well-behaved clients retry them.
func Uncounted(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}
