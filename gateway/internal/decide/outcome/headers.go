package outcome

import (
	"strconv"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Headers are alternating names, in canonical form, and values.
type Headers []string

// loopHeaders is the number of headers of the refusal for a loop.
const loopHeaders = 6

// Set adds a header.
func (h *Headers) Set(name, value string) { *h = append(*h, name, value) }

// Headers that are added to those of the upstream with the same name. All others replace
// them.
const (
	headerLimitPolicy = "Ratelimit-Policy"
	headerLimit       = "Ratelimit"
)

// Put adds the headers to those of an answer.
func (h Headers) Put(answer map[string][]string) {
	for i := 0; i < len(h); i += 2 {
		name, value := h[i], h[i+1:i+2:i+2]
		if name == headerLimit || name == headerLimitPolicy {
			value = append(answer[name], value...)
		}
		answer[name] = value
	}
}

// headers returns the headers that any outcome may have: why there is no full decision, and
// the rules and findings.
func (o *Outcome) headers() (h Headers) {
	if o.Finding != nil {
		h = make(Headers, 0, 2*loopHeaders)
	}
	if why := o.of.incomplete(); why != "" {
		h.Set("X-Loop-Degraded", why)
	}
	if o.of.Exempt != "" {
		h.Set("X-Loop-Exempt", o.of.Exempt)
	}
	shadow := strongest(o.Verdicts, true)
	if would := max(pick(o.of.Decision, true).GetAction(), action(shadow)); would != checkpb.Action_ACTION_ALLOW {
		h.Set("X-Loop-Would", would.Label())
	}
	h.addLimits(o.Verdicts)
	if o.limit != nil {
		o.setLimit(&h)
	}
	if o.Finding != nil {
		o.setFinding(&h)
	}
	return h
}

// ReportHeaders returns the headers of a report about the outcome: without those that say
// when to retry, because the report is not an answer to the request.
func (o *Outcome) ReportHeaders() Headers {
	report := *o
	report.why = allowed
	return report.headers()
}

// setFinding adds the headers of the strongest finding.
func (o *Outcome) setFinding(h *Headers) {
	f := o.Finding
	h.Set("X-Loop-Action", f.GetAction().Label())
	h.Set("X-Loop-Reason", "loop_detected")
	h.Set("X-Loop-Detector", f.GetDetector())
	h.Set("X-Loop-Count", strconv.FormatUint(uint64(f.GetHitCount()), 10))
	if f.GetBackoffSeconds() > 0 {
		h.Set("X-Loop-Backoff", strconv.FormatUint(uint64(f.GetBackoffSeconds()), 10))
	}
	if o.of.fairvisor() && o.why != forLimit {
		h.Set("X-Fairvisor-Reason", "loop_detected")
	}
	if f.GetAction() == checkpb.Action_ACTION_THROTTLE {
		delay := strconv.FormatUint(uint64(f.GetDelayMs()), 10)
		h.Set("X-Loop-Delay-Ms", delay)
		if o.of.fairvisor() {
			h.Set("X-Fairvisor-Loop-Delay", delay)
		}
	}
}

// setLimit adds the headers of the strongest rule.
func (o *Outcome) setLimit(h *Headers) {
	v := o.limit
	h.Set("X-Loop-Rule", ascii(name(v)))
	h.Set("X-Loop-Rule-Action", v.GetAction().Label())
	if why := reason(v); why != "" {
		h.Set("X-Loop-Rule-Reason", why)
	}
	if o.of.fairvisor() && !v.GetAction().Stops() {
		h.Set("X-Fairvisor-Warning", "budget_"+v.GetAction().Label())
	}
}

// addLimits adds what is left of the limits, in the fields of
// draft-ietf-httpapi-ratelimit-headers. The rule with the least left is also in the fields of
// the draft's early versions, which most clients still read.
func (h *Headers) addLimits(verdicts []evidence.Verdict) {
	var scarcest *evidence.Verdict
	for i := range verdicts {
		v := &verdicts[i]
		if v.Wire.GetShadow() || v.GetLimit() <= 0 {
			continue
		}
		quoted, unit := strconv.Quote(ascii(name(v))), unit(v)
		if unit != "" {
			unit = ";qu=" + strconv.Quote(unit)
		}
		window := strconv.FormatUint(uint64(max(v.GetWindowSeconds(), 1)), 10)
		h.Set(headerLimitPolicy, quoted+";q="+number(v.GetLimit()*scale(v))+";w="+window+unit)
		h.Set(headerLimit, quoted+";r="+number(v.GetRemaining()*scale(v))+";t="+wholeSeconds(v.GetResetMs()))
		if scarcest == nil || v.GetRemaining()/v.GetLimit() < scarcest.GetRemaining()/scarcest.GetLimit() {
			scarcest = v
		}
	}
	if scarcest != nil {
		h.Set("Ratelimit-Limit", number(scarcest.GetLimit()*scale(scarcest)))
		h.Set("Ratelimit-Remaining", number(scarcest.GetRemaining()*scale(scarcest)))
		h.Set("Ratelimit-Reset", wholeSeconds(scarcest.GetResetMs()))
	}
}

// number formats a quantity for a header: as a whole number, rounded down.
func number(f float64) string { return strconv.FormatInt(int64(min(f+1e-6, 1e15)), 10) }

func wholeSeconds(ms uint64) string { return strconv.FormatUint((ms+999)/1000, 10) }

// ascii replaces characters that a header's quoted string can't hold.
func ascii(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			out[i] = '_'
		}
	}
	return string(out)
}
