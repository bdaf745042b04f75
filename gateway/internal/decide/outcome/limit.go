package outcome

import (
	"cmp"
	"math"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/money"
)

// strongest returns the verdict with the strongest action, and of equal ones that with the
// longest wait. It returns nil if all allow.
func strongest(verdicts []evidence.Verdict, shadow bool) (best *evidence.Verdict) {
	for i := range verdicts {
		v := &verdicts[i]
		if v.Wire.GetShadow() != shadow || v.GetAction() == checkpb.Action_ACTION_ALLOW {
			continue
		}
		if v.GetAction() > action(best) || v.GetAction() == action(best) && waitMs(v) > waitMs(best) {
			best = v
		}
	}
	return best
}

// action returns the action of a verdict; allow for nil.
func action(v *evidence.Verdict) checkpb.Action {
	if v == nil {
		return checkpb.Action_ACTION_ALLOW
	}
	return v.GetAction()
}

// waitMs returns how long the rule delays a request, in milliseconds.
func waitMs(v *evidence.Verdict) uint64 {
	if v.GetAction() != checkpb.Action_ACTION_REJECT {
		return uint64(v.GetDelayMs())
	}
	if v.GetRetryAfterMs() == 0 {
		return math.MaxUint64 // waiting can't help
	}
	return v.GetRetryAfterMs()
}

// refuseLimit refuses the request because of a rule.
func (o *Outcome) refuseLimit(label string) {
	o.refuse(forLimit, label, statusTooMany)
	if o.of.fairvisor() {
		o.Headers.Set("X-Fairvisor-Reason", cmp.Or(reason(o.limit), codeLimited))
	}
}

// name returns the rule's name with its policy's.
func name(v *evidence.Verdict) string { return v.Wire.GetPolicy() + "/" + v.Wire.GetRule() }

// scale returns the factor from the rule's unit to that of headers: dollars become cents,
// because headers have whole numbers.
func scale(v *evidence.Verdict) float64 {
	if dollars(v) {
		return 100
	}
	return 1
}

// unit returns the rule's unit in headers; "" for requests and for costs that requests name.
func unit(v *evidence.Verdict) string {
	switch {
	case dollars(v):
		return "us-cents"
	case v.Rule.TokenBucketLLM != nil:
		return "tokens"
	default:
		return ""
	}
}

func dollars(v *evidence.Verdict) bool {
	return v.Rule.CostBased != nil && v.Rule.CostBased.CostKey == "usd"
}

// reason returns Fairvisor's name of the limit that rejects; "" if none does.
func reason(v *evidence.Verdict) string {
	switch {
	case !v.GetAction().Stops():
		return ""
	case v.GetExceeded() == checkpb.Exceeded_EXCEEDED_BREAKER:
		return codeBreaker
	case v.Oversized != "":
		return v.Oversized
	case v.Rule.CostBased != nil:
		return "budget_exceeded"
	case v.Rule.TokenBucketLLM == nil:
		return codeLimited
	case v.GetExceeded() == checkpb.Exceeded_EXCEEDED_BUDGET:
		return "tpd_exceeded"
	default:
		return "tpm_exceeded"
	}
}

// code returns the error code that clients see.
func code(v *evidence.Verdict) string {
	if v.GetExceeded() == checkpb.Exceeded_EXCEEDED_BREAKER {
		return codeBreaker
	}
	return codeLimited
}

// limitMessage says what the rule allows. wait is in seconds; 0 for none.
func limitMessage(v *evidence.Verdict, wait int) string {
	if code(v) == codeBreaker {
		return breakerMessage(v, wait)
	}
	message := stoppedBy(v) + "rule " + v.Wire.GetRule() + " of policy " + v.Wire.GetPolicy()
	switch why := reason(v); why {
	case "":
	case codeLimited:
		message += " (" + codeLimited + ")"
	default:
		message += " (" + codeLimited + ", " + why + ")"
	}
	if v.Wire.GetOversized() || v.GetRetryAfterMs() == 0 && v.GetAction().Stops() {
		return message + " never allows a request of this size."
	}
	amount := decimal
	if dollars(v) {
		amount = money.USD
	}
	message += " allows " + amount(v.GetLimit()) + ", and " + amount(math.Floor(v.GetRemaining()*100)/100) + " are left."
	if wait > 0 {
		message += " Wait " + strconv.Itoa(wait) + " seconds."
	}
	return message
}

// breakerMessage says why the breaker is open, and until when.
func breakerMessage(v *evidence.Verdict, wait int) string {
	message := stoppedBy(v) + "the circuit breaker of policy " + v.Wire.GetPolicy() + " is open (" + codeBreaker + "), since " +
		decimal(v.GetLimit()) + " were spent within a minute."
	if wait > 0 {
		return message + " It closes in " + strconv.Itoa(wait) + " seconds."
	}
	return message + " Close it with `unloop loops release " + v.GetLoopId() + "`."
}

// stoppedBy begins the message about a rule.
func stoppedBy(v *evidence.Verdict) string {
	if v.GetAction().Stops() {
		return "Stopped by Unloop: "
	}
	return "Seen by Unloop: "
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
