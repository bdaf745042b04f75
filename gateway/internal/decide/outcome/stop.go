package outcome

import (
	"cmp"
	"hash/fnv"
	"math"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/finding"
)

// why is what stops a request.
type why uint8

const (
	allowed why = iota
	forLoop
	forLimit
	unchecked
	overloaded
)

// Stop is what stops a request, what its sender is told, and whether waiting helps. The
// answer to the request, its headers and the check API all use it.
type Stop struct {
	Action checkpb.Action
	// Reason is in the check API, and Code in the error.
	Reason, Code string
	Message      string
	// Wait is the number of seconds until nothing stops the request; 0 if waiting does not
	// help.
	Wait int
}

// cause returns what stops the request. A rule comes before a finding with an action of the
// same strength, and both before a missing check.
func (o *Outcome) cause() why {
	switch rule, found := action(o.limit), o.Finding.GetAction(); {
	case rule.Stops() && rule >= found:
		return forLimit
	case found.Stops():
		return forLoop
	case o.of.Overloaded:
		return overloaded
	case o.of.Degraded != "" && o.of.FailClosed:
		return unchecked
	default:
		return allowed
	}
}

// Stop describes what stops the request; the zero value if nothing does.
func (o *Outcome) Stop() Stop {
	wait := o.wait()
	switch o.why {
	case forLoop:
		return Stop{o.Finding.GetAction(), client.ReasonLoop, codeLoop, o.of.Look.message(o.Finding, wait), wait}
	case forLimit:
		return Stop{max(o.limit.GetAction(), checkpb.Action_ACTION_REJECT), client.ReasonLimited, code(o.limit), limitMessage(o.limit, wait), wait}
	case overloaded:
		return Stop{checkpb.Action_ACTION_REJECT, client.ReasonUnchecked, codeBusy, busyMessage, wait}
	case unchecked:
		return Stop{checkpb.Action_ACTION_REJECT, client.ReasonUnchecked, codeUnchecked, uncheckedMessage(o.of.Degraded), wait}
	default:
		return Stop{}
	}
}

// Refusal returns the error that a refused client gets.
func (o *Outcome) Refusal() provider.Refusal {
	if o.why == forLoop {
		return o.of.Look.refusal(o.Finding, o.wait(), o.Status)
	}
	s := o.Stop()
	return provider.Refusal{Status: o.Status, Code: s.Code, Message: s.Message}
}

// uncheckedWait is the wait, in seconds, of requests that could not be checked.
const uncheckedWait = 1

// wait returns the number of seconds until nothing stops the request, if its sender sends
// nothing else; 0 if waiting does not help.
func (o *Outcome) wait() int {
	d, f := o.of.Decision, o.Finding
	ms := d.GetRetryAfterMs()
	switch {
	case o.why == unchecked || o.why == overloaded:
		return uncheckedWait
	case d.GetLasting():
		return 0
	case action(o.limit) == checkpb.Action_ACTION_THROTTLE: // too many already wait
		ms = max(ms, uint64(o.limit.GetDelayMs()))
	}
	if !f.GetAction().Stops() {
		return ceilSeconds(ms)
	}
	told := cmp.Or(f.GetRetryAfterMs(), f.GetBlockedMs())
	seconds := ceilSeconds(max(ms, uint64(cmp.Or(told, 1000*max(f.GetWindowSeconds(), 1)))))
	if told == 0 || f.GetDetector() == finding.Request { // its time is exact, as in Fairvisor
		return seconds
	}
	return seconds + jitter(seconds, o.of.Caller)
}

// jitter returns up to a tenth of a time, depending on the caller, so that not all come back
// at once.
func jitter(seconds int, caller string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(caller)) // never fails
	return int(uint64(seconds) * uint64(h.Sum32()) / math.MaxUint32 / 10)
}

func ceilSeconds(ms uint64) int { return int((ms + 999) / 1000) }

const busyMessage = "too many requests to check for loops; retry in a second"

func uncheckedMessage(why string) string {
	return "Stopped by Unloop: the request could not be checked for loops (" + codeUnchecked + ", " + why + "), which a policy requires."
}
