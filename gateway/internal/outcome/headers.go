package outcome

import (
	"strconv"

	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Headers are those that an outcome sets, by their canonical names.
type Headers []provider.Header

// usualHeaders is how many headers the refusal of a loop has, and some more.
const usualHeaders = 8

func (h *Headers) set(name, value string) { *h = append(*h, provider.Header{Name: name, Value: value}) }

// Names of the headers that stand beside those of the same name from the upstream.
// All others replace them.
const (
	headerLimitPolicy = "Ratelimit-Policy"
	headerLimit       = "Ratelimit"
)

// Put writes the headers into an answer's.
func (h Headers) Put(answer map[string][]string) {
	values := make([]string, len(h)) // one for all of them
	for i, header := range h {
		values[i] = header.Value
		if header.Name == headerLimit || header.Name == headerLimitPolicy {
			answer[header.Name] = append(answer[header.Name], header.Value)
		} else {
			answer[header.Name] = values[i : i+1 : i+1]
		}
	}
}

// headers returns the headers that tell what was found.
func (o *Outcome) headers() Headers {
	h := make(Headers, 0, usualHeaders)
	if why := o.of.incomplete(); why != "" {
		h.set("X-Loop-Degraded", why)
	}
	if o.of.Exempt != "" {
		h.set("X-Loop-Exempt", o.of.Exempt)
	}
	shadow := strongestLimit(o.Verdicts, true)
	if would := max(pick(o.of.Decision, true).GetAction(), shadow.GetAction()); would != checkpb.Action_ACTION_ALLOW {
		h.set("X-Loop-Would", would.Label())
	}
	h.addLimits(o.Verdicts)
	if o.limit.Wire != nil {
		o.setLimit(&h)
	}
	if o.Finding != nil {
		o.setFinding(&h)
	}
	return h
}

// setFinding tells of the strongest finding.
func (o *Outcome) setFinding(h *Headers) {
	f := o.Finding
	h.set("X-Loop-Action", f.GetAction().Label())
	h.set("X-Loop-Reason", "loop_detected")
	h.set("X-Loop-Detector", f.GetDetector())
	h.set("X-Loop-Count", strconv.FormatUint(uint64(f.GetHitCount()), 10))
	if f.GetBackoffSeconds() > 0 {
		h.set("X-Loop-Backoff", strconv.FormatUint(uint64(f.GetBackoffSeconds()), 10))
	}
	if o.of.fairvisor() && !o.limited {
		h.set("X-Fairvisor-Reason", "loop_detected")
	}
	if f.GetAction() == checkpb.Action_ACTION_THROTTLE {
		delay := strconv.FormatUint(uint64(f.GetDelayMs()), 10)
		h.set("X-Loop-Delay-Ms", delay)
		if o.of.fairvisor() {
			h.set("X-Fairvisor-Loop-Delay", delay)
		}
	}
}

// setLimit tells what the strongest rule does, from a warning on.
func (o *Outcome) setLimit(h *Headers) {
	v := o.limit
	h.set("X-Loop-Rule", ascii(name(v)))
	h.set("X-Loop-Rule-Action", v.GetAction().Label())
	if why := reason(v); why != "" {
		h.set("X-Loop-Rule-Reason", why)
	}
	if o.of.fairvisor() && !v.GetAction().Stops() {
		h.set("X-Fairvisor-Warning", "budget_"+v.GetAction().Label())
	}
}

// addLimits tells what is left of the rules that hold: of all of them in the
// fields of the IETF's draft-ietf-httpapi-ratelimit-headers, and of the scarcest one
// also in those of the draft's early versions, which most clients still read.
func (h *Headers) addLimits(verdicts []evidence.Verdict) {
	var scarcest evidence.Verdict
	for _, v := range verdicts {
		if v.Wire.GetShadow() || v.GetLimit() <= 0 {
			continue
		}
		quoted, unit := strconv.Quote(ascii(name(v))), unit(v)
		if unit != "" {
			unit = ";qu=" + strconv.Quote(unit)
		}
		window := strconv.FormatUint(uint64(max(v.GetWindowSeconds(), 1)), 10)
		h.set(headerLimitPolicy, quoted+";q="+number(v.GetLimit()*scale(v))+";w="+window+unit)
		h.set(headerLimit, quoted+";r="+number(v.GetRemaining()*scale(v))+";t="+wholeSeconds(v.GetResetMs()))
		if scarcest.Wire == nil || v.GetRemaining()/v.GetLimit() < scarcest.GetRemaining()/scarcest.GetLimit() {
			scarcest = v
		}
	}
	if scarcest.Wire != nil {
		h.set("Ratelimit-Limit", number(scarcest.GetLimit()*scale(scarcest)))
		h.set("Ratelimit-Remaining", number(scarcest.GetRemaining()*scale(scarcest)))
		h.set("Ratelimit-Reset", wholeSeconds(scarcest.GetResetMs()))
	}
}

// number formats a quantity for a header: as a whole number, rounded down.
func number(f float64) string { return strconv.FormatInt(int64(min(f+1e-6, 1e15)), 10) }

func wholeSeconds(ms uint64) string { return strconv.FormatUint((ms+999)/1000, 10) }

// ascii replaces what a header's quoted string can't hold.
func ascii(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			out[i] = '_'
		}
	}
	return string(out)
}
