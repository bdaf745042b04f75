package gateway

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Codes of the errors that clients see.
const (
	codeLoop      = "recursive_loop_detected"
	codeUnchecked = "loop_check_unavailable"
	codeLimited   = "rate_limit_exceeded"
	codeBreaker   = "circuit_breaker_open"
)

// stop answers a request that is not to be forwarded.
func (g *Gateway) stop(w http.ResponseWriter, x *exchange) bool {
	f := strongest(x.decision)
	loop := f != nil && f.GetAction().Stops()
	rule, limited := x.enforced(false)
	limited = limited && rule.verdict.GetAction().Stops()
	if loop || limited || x.degraded != "" && x.failClosed {
		defer g.giveBack(x)
	}
	switch {
	case limited && (!loop || f.GetAction() <= rule.verdict.GetAction()):
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "limit").Inc()
		g.refuseLimit(w, x, rule, f)
		return true
	case loop:
		g.metrics.requests.WithLabelValues(x.Provider.Name(), f.GetAction().Label()).Inc()
		if x.Asked || !g.answerInPlace(w, x, f) {
			g.refuseLoop(w, x, f)
		}
		return true
	case x.degraded != "" && x.failClosed:
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "fail-closed").Inc()
		w.Header().Set("Retry-After", "1")
		x.setHeaders(w.Header())
		g.refuse(w, x, provider.Refusal{
			Status: http.StatusServiceUnavailable, Code: codeUnchecked,
			Message: uncheckedMessage(x.degraded),
		})
		return true
	default:
		return false
	}
}

func uncheckedMessage(why string) string {
	return "the request could not be checked for loops (" + why + "), and a policy says that it must be"
}

// refuseLoop is the 429 for a finding.
func (g *Gateway) refuseLoop(w http.ResponseWriter, x *exchange, f *checkpb.Finding) {
	x.setHeaders(w.Header())
	if waitingHelps(f) {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter(f, x.Identity.GetCaller())))
	}
	// OpenAI's and Anthropic's SDKs retry a 429 unless told not to, and would
	// feed the counter.
	w.Header().Set("X-Should-Retry", "false")
	if x.refusal.fits(f) {
		g.answerFrom(w, x, f)
		return
	}
	g.refuse(w, x, loopRefusal(f, x.Identity.GetCaller()))
}

// waitingHelps says whether the same request may pass later. An agent's tool
// calls are judged by its history, which waiting does not change, and what it
// means stays the same.
func waitingHelps(f *checkpb.Finding) bool {
	switch f.GetDetector() {
	case detectorTool, detectorCycle, detectorSemantic:
		return false
	default:
		return true
	}
}

// retryAfter is the time in seconds until the request passes if nothing else is
// sent. It is up to a tenth longer by a share that differs between callers, so that
// not all come back at once; the request detector's is exact, as in its source.
// Detectors that do not tell are taken by the cooldown, else the window.
func retryAfter(f *checkpb.Finding, caller string) int {
	ms := f.GetRetryAfterMs()
	if ms == 0 {
		ms = f.GetBlockedMs()
	}
	if ms == 0 {
		return int(max(f.GetWindowSeconds(), 1))
	}
	seconds := (int(ms) + 999) / 1000
	if f.GetDetector() == detectorRequest {
		return seconds
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(caller)) // never fails
	return seconds + int(uint64(seconds)*uint64(h.Sum32())/math.MaxUint32/10)
}

// answerFrom answers from the request's template, through a shared buffer.
func (g *Gateway) answerFrom(w http.ResponseWriter, x *exchange, f *checkpb.Finding) {
	room, ok := g.refusals.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	*room = x.refusal.render((*room)[:0], f)
	g.answer(w, x, http.StatusTooManyRequests, provider.TypeJSON, *room)
	g.refusals.Put(room)
}

func (g *Gateway) refuse(w http.ResponseWriter, x *exchange, r provider.Refusal) {
	for _, h := range r.Headers {
		w.Header().Set(h.Name, h.Value)
	}
	g.answer(w, x, r.Status, provider.TypeJSON, x.Provider.Refusal(r))
}

func (g *Gateway) answer(w http.ResponseWriter, x *exchange, status int, contentType string, body []byte) {
	x.status = status
	x.upload.hurry()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if x.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that left needs no answer
	}
}

// statusClientLeft answers a client that is gone. Logs of proxies know the
// number; without it net/http would say 200 to one that has only stopped
// sending.
const statusClientLeft = 499

func loopMessage(f *checkpb.Finding, caller string) string {
	if f.GetMessage() != "" {
		return fmt.Sprintf("%s: %s (detector %s, policy %s)", codeLoop, f.GetMessage(), f.GetDetector(), f.GetPolicy())
	}
	return fmt.Sprintf("%s: %s %d times within %d seconds (detector %s, policy %s). Change the request, or wait %d seconds.",
		codeLoop, sameAs(f), f.GetHitCount(), f.GetWindowSeconds(), f.GetDetector(), f.GetPolicy(), retryAfter(f, caller))
}

// sameAs says what was seen again.
func sameAs(f *checkpb.Finding) string {
	switch {
	case f.GetDetector() == detectorRequest:
		return "the same request was seen"
	case f.GetRule() == ruleTogether:
		return "the same prompt, with the same beginning and the same newest messages, came from this caller's sessions"
	default:
		return "the same prompt, with the same beginning and the same newest messages, was seen"
	}
}

// Rules of the prompt detector's findings.
const (
	ruleTogether = "sessions-together"
	ruleRounds   = "identical-rounds"
)

func fingerprintText(f *checkpb.Finding) string { return hex.EncodeToString(f.GetFingerprint()) }

// strongest is the finding whose action is taken; nil if nothing is to be done.
func strongest(d *checkpb.Decision) *checkpb.Finding { return pick(d, false) }

// pick returns the strongest finding of one mode; of equal ones that with the
// longest block, then the one that names what was repeated, then the highest count.
func pick(d *checkpb.Decision, shadow bool) *checkpb.Finding {
	var best *checkpb.Finding
	for _, f := range d.GetFindings() {
		if f.GetShadow() == shadow && (best == nil || stronger(f, best)) {
			best = f
		}
	}
	return best
}

func stronger(a, b *checkpb.Finding) bool {
	if a.GetAction() != b.GetAction() {
		return a.GetAction() > b.GetAction()
	}
	if a.GetBlockedMs() != b.GetBlockedMs() {
		return a.GetBlockedMs() > b.GetBlockedMs()
	}
	if rounds := a.GetRule() == ruleRounds; rounds != (b.GetRule() == ruleRounds) {
		return !rounds // what names the tool says more
	}
	return a.GetHitCount() > b.GetHitCount()
}

// incomplete says what is missing of the decision: all of it, or what the semantic
// detector would have said. The failure mode is about the former alone.
func (x *exchange) incomplete() string {
	if x.degraded == "" && x.decision.GetSemanticMissed() {
		return detectorSemantic
	}
	return x.degraded
}

// setHeaders tells in an answer's headers what was found.
func (x *exchange) setHeaders(h http.Header) {
	if why := x.incomplete(); why != "" {
		h.Set("X-Loop-Degraded", why)
	}
	if x.operator.Exempt != "" {
		h.Set("X-Loop-Exempt", x.operator.Exempt)
	}
	would := pick(x.decision, true).GetAction()
	if rule, ok := x.enforced(true); ok {
		would = max(would, rule.verdict.GetAction())
	}
	if would != checkpb.Action_ACTION_ALLOW {
		h.Set("X-Loop-Would", would.Label())
	}
	x.setLimitHeaders(h)
	x.setRuleHeaders(h)
	if x.repaired != "" {
		h.Set("X-Loop-Repaired", x.repaired)
	}
	f := strongest(x.decision)
	if f == nil {
		return
	}
	h.Set("X-Loop-Action", f.GetAction().Label())
	h.Set("X-Loop-Reason", "loop_detected")
	h.Set("X-Loop-Detector", f.GetDetector())
	h.Set("X-Loop-Count", strconv.FormatUint(uint64(f.GetHitCount()), 10))
	if f.GetAction() == checkpb.Action_ACTION_THROTTLE {
		h.Set("X-Loop-Delay-Ms", strconv.FormatUint(uint64(f.GetDelayMs()), 10))
	}
	if f.GetBackoffSeconds() > 0 {
		h.Set("X-Loop-Backoff", strconv.FormatUint(uint64(f.GetBackoffSeconds()), 10))
	}
	if x.fairvisor {
		x.setFairvisorHeaders(h, f)
	}
}

// setFairvisorHeaders adds the headers that clients of Fairvisor look for.
func (x *exchange) setFairvisorHeaders(h http.Header, f *checkpb.Finding) {
	h.Set("X-Fairvisor-Reason", "loop_detected")
	if f.GetAction() == checkpb.Action_ACTION_THROTTLE {
		delay := time.Duration(f.GetDelayMs()) * time.Millisecond
		h.Set("X-Fairvisor-Loop-Delay", strconv.FormatInt(delay.Milliseconds(), 10))
	}
}
