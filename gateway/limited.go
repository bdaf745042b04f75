package gateway

import (
	"cmp"
	"math"
	"net/http"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

// setLimitHeaders tells what is left of the rules that hold: all of them in the
// fields of the IETF's draft-ietf-httpapi-ratelimit-headers, and the scarcest
// also in those of its early versions, which most clients still read.
func (x *exchange) setLimitHeaders(h http.Header) {
	var scarcest ruled
	for _, r := range x.verdicts() {
		v := r.verdict
		if r.wire.GetShadow() || v.GetLimit() <= 0 {
			continue
		}
		name, scale, unit := strconv.Quote(ascii(r.name())), r.scale(), ""
		if u := r.unit(); u != "" {
			unit = ";qu=" + strconv.Quote(u)
		}
		h.Add("RateLimit-Policy", name+";q="+number(v.GetLimit()*scale)+";w="+strconv.FormatUint(uint64(max(v.GetWindowSeconds(), 1)), 10)+unit)
		h.Add("RateLimit", name+";r="+number(v.GetRemaining()*scale)+";t="+wholeSeconds(v.GetResetMs()))
		if scarcest.verdict == nil || v.GetRemaining()/v.GetLimit() < scarcest.verdict.GetRemaining()/scarcest.verdict.GetLimit() {
			scarcest = r
		}
	}
	if v := scarcest.verdict; v != nil {
		h.Set("RateLimit-Limit", number(v.GetLimit()*scarcest.scale()))
		h.Set("RateLimit-Remaining", number(v.GetRemaining()*scarcest.scale()))
		h.Set("RateLimit-Reset", wholeSeconds(v.GetResetMs()))
	}
}

// name is the rule's, with its policy's.
func (r ruled) name() string { return r.wire.GetPolicy() + "/" + r.wire.GetRule() }

// centsPerDollar is how many of the units in which headers tell a budget are in one
// of those in which it is set.
const centsPerDollar = 100

// scale turns the rule's unit into that of headers, which have whole numbers only:
// dollars into cents.
func (r ruled) scale() float64 {
	if r.dollars() {
		return centsPerDollar
	}
	return 1
}

// unit names the rule's unit in headers; "" for requests and what they say that they
// cost.
func (r ruled) unit() string {
	switch {
	case r.dollars():
		return "us-cents"
	case r.rule.TokenBucketLLM != nil:
		return "tokens"
	default:
		return ""
	}
}

func (r ruled) dollars() bool { return r.rule.CostBased != nil && r.rule.CostBased.CostKey == "usd" }

// setRuleHeaders tells what the strongest rule does, from a warning on.
func (x *exchange) setRuleHeaders(h http.Header) {
	r, ok := x.enforced(false)
	if !ok {
		return
	}
	action := r.verdict.GetAction().Label()
	h.Set("X-Loop-Rule", ascii(r.name()))
	h.Set("X-Loop-Rule-Action", action)
	if reason := r.reason(); reason != "" {
		h.Set("X-Loop-Rule-Reason", reason)
	}
	if x.fairvisor && !r.verdict.GetAction().Stops() {
		h.Set("X-Fairvisor-Warning", "budget_"+action)
	}
}

// reason says which limit of the rule rejects, in Fairvisor's words; "" if none
// does.
func (r ruled) reason() string {
	exceeded := r.verdict.GetExceeded()
	switch {
	case !r.verdict.GetAction().Stops():
		return ""
	case exceeded == checkpb.Exceeded_EXCEEDED_BREAKER:
		return codeBreaker
	case r.oversized != "":
		return r.oversized
	case r.rule.CostBased != nil:
		return "budget_exceeded"
	case r.rule.TokenBucketLLM == nil:
		return codeLimited
	case exceeded == checkpb.Exceeded_EXCEEDED_BUDGET:
		return "tpd_exceeded"
	default:
		return "tpm_exceeded"
	}
}

// number is a quantity as headers have it: a whole number, rounded down.
func number(f float64) string { return strconv.FormatInt(int64(min(f+1e-6, 1e15)), 10) }

func wholeSeconds(ms uint64) string { return strconv.FormatUint((ms+999)/1000, 10) }

// ascii is a name as a header's string can hold it.
func ascii(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			out[i] = '_'
		}
	}
	return string(out)
}

// refuseLimit is the 429 for a rule's reject. f is the loop that was found
// besides; nil for none.
func (g *Gateway) refuseLimit(w http.ResponseWriter, x *exchange, r ruled, f *checkpb.Finding) {
	x.setHeaders(w.Header())
	wait := r.seconds()
	if r.verdict.GetAction() == checkpb.Action_ACTION_THROTTLE { // too many wait already
		wait = int(r.verdict.GetDelayMs()+999) / 1000
	}
	if f.GetAction().Stops() && waitingHelps(f) && wait > 0 {
		wait = max(wait, retryAfter(f, x.Identity.GetCaller()))
	}
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	if wait == 0 || f.GetAction().Stops() {
		w.Header().Set("X-Should-Retry", "false") // it would be in vain, or feed a loop's counter
	}
	if x.fairvisor {
		w.Header().Set("X-Fairvisor-Reason", cmp.Or(r.reason(), codeLimited))
	}
	g.refuse(w, x, provider.Refusal{Status: http.StatusTooManyRequests, Code: r.code(), Message: r.message(wait)})
}

// seconds is how long a rejected request has to wait; 0 if in vain.
func (r ruled) seconds() int { return int((r.verdict.GetRetryAfterMs() + 999) / 1000) }

// code is the error's, as clients see it.
func (r ruled) code() string {
	if r.verdict.GetExceeded() == checkpb.Exceeded_EXCEEDED_BREAKER {
		return codeBreaker
	}
	return codeLimited
}

// message says what the rule allows.
func (r ruled) message(wait int) string {
	if r.code() == codeBreaker {
		return r.breakerMessage(wait)
	}
	message := codeLimited + ": rule " + r.wire.GetRule() + " of policy " + r.wire.GetPolicy()
	if reason := r.reason(); reason != "" {
		message += " (" + reason + ")"
	}
	if r.wire.GetOversized() || r.verdict.GetRetryAfterMs() == 0 && r.verdict.GetAction().Stops() {
		return message + " never lets a request of this size through."
	}
	unit := ""
	if r.dollars() {
		unit = " US dollars"
	}
	message += " allows " + strconv.FormatFloat(r.verdict.GetLimit(), 'f', -1, 64) + unit + ", and " +
		strconv.FormatFloat(math.Floor(r.verdict.GetRemaining()*100)/100, 'f', -1, 64) + " are left."
	if wait > 0 {
		message += " Wait " + strconv.Itoa(wait) + " seconds."
	}
	return message
}

// breakerMessage says why all is rejected, and until when.
func (r ruled) breakerMessage(wait int) string {
	message := codeBreaker + ": the circuit breaker of policy " + r.wire.GetPolicy() + " is open, since " +
		strconv.FormatFloat(r.verdict.GetLimit(), 'f', -1, 64) + " were spent within a minute."
	if wait > 0 {
		return message + " It closes in " + strconv.Itoa(wait) + " seconds."
	}
	return message + " An operator can close it: unloop loops release " + r.verdict.GetLoopId()
}
