// Package evaluate evaluates the parts of a check: rules, counters, tool watches and semantic
// watches. Each step takes a part, its stored record and a time, and returns the next record
// and a result. The package combines the results of all parts into a decision, and says what
// their incidents record.
//
// It reads and writes check messages for the pure cores (counter, limit, toolloop,
// streak). It does not know where records are stored, who sent the check, or how texts
// are compared, and it reads no clock.
package evaluate

import (
	"cmp"
	"errors"
	"time"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

// ErrMalformed says that a check has a part that no gateway sends.
var ErrMalformed = errors.New("malformed")

// Access is how a part uses its record.
type Access uint8

// The kinds of access.
const (
	// Write applies the part's step to the record.
	Write Access = iota
	// Read evaluates the part against the record and changes nothing.
	Read
	// None needs no record.
	None
)

// Update is a step from one record to the next and how long that one is kept; 0 leaves
// the record as it is. The step may run more than once; the last run counts.
type Update[S any] struct {
	Key  string
	Step func(s S, now time.Time) (next S, ttl time.Duration)
}

// Result is what one part adds to the decision on a check.
type Result struct {
	Findings []*checkpb.Finding
	// Limit is the verdict of a rule.
	Limit *checkpb.LimitVerdict
	// Hits is the count of a counter or a tool watch.
	Hits uint32
	// RetryAfter is the time until the part lets the request pass, if nothing else is
	// sent. Lasting says that it stops the request and that waiting does not change that.
	RetryAfter time.Duration
	Lasting    bool
	// Tools is the report of a tool watch; nil if none was asked for.
	Tools *checkpb.ToolReport
	// Incidents are the findings for the records of their incidents.
	Incidents []Incident
	// Cooldown is the cooldown that begins; nil for none.
	Cooldown *Cooldown
	Err      error
}

// Cooldown is a block of a counter that begins with a finding.
type Cooldown struct {
	Finding *checkpb.Finding
	// Key is the key of the counter's record, Part the part of it; "" without parts.
	Key, Part string
	// Incident is the conversation that the finding is reported under.
	Incident string
	At       time.Time
}

// Incident is a finding for the record of its incident. Only Record uses its number of
// requests.
type Incident struct {
	incident.Finding
	// LoopID is the field that takes the id of the incident.
	LoopID *string
	// Over says that the incident ends with this check.
	Over bool
}

// Conclude returns the decision for the results of all parts, those of rules first. The
// strongest action that is not shadow wins. The error joins those of all parts.
func Conclude(limits []*checkpb.Limit, results []Result) (*checkpb.Decision, error) {
	out := &checkpb.Decision{Limits: make([]*checkpb.LimitVerdict, len(limits)), HitCounts: make([]uint32, len(results)-len(limits))}
	var faults error
	for i := range results {
		r := &results[i]
		if i < len(limits) {
			out.Limits[i] = cmp.Or(r.Limit, &checkpb.LimitVerdict{})
			if !limits[i].GetShadow() {
				out.Action = max(out.Action, r.Limit.GetAction())
			}
		} else {
			out.HitCounts[i-len(limits)] = r.Hits
			if r.Tools != nil {
				out.ToolReports = append(out.ToolReports, r.Tools)
			}
		}
		if r.Err != nil {
			faults = errors.Join(faults, r.Err)
		}
		out.RetryAfterMs = max(out.RetryAfterMs, uint64(r.RetryAfter/time.Millisecond))
		out.Lasting = out.Lasting || r.Lasting
		for _, f := range r.Findings {
			Add(out, f)
		}
	}
	return out, faults
}

// Add adds a finding to a decision.
func Add(d *checkpb.Decision, f *checkpb.Finding) {
	d.Findings = append(d.Findings, f)
	if f.GetShadow() {
		return
	}
	d.Action = max(d.Action, f.GetAction())
	d.Lasting = d.Lasting || f.GetAction().Stops() && finding.Of(f.GetDetector(), f.GetRule()).Lasting
}

// Parts returns the number of parts of a check: its rules, counters and tool watches.
func Parts(check *checkpb.Check) int {
	return len(check.GetLimits()) + len(check.GetCounters()) + len(check.GetWatches())
}

// PartOf returns a check with all that the step of part i depends on: the part, and the facts
// of the request itself.
func PartOf(check *checkpb.Check, i int) *checkpb.Check {
	part := &checkpb.Check{
		RequestId: check.GetRequestId(), Identity: check.GetIdentity(), Hits: check.GetHits(), Retry: check.GetRetry(),
		Asked: check.GetAsked(), Idempotency: check.GetIdempotency(), Explain: check.GetExplain(), Hit: check.GetHit(),
	}
	limits, counters := check.GetLimits(), check.GetCounters()
	switch ruled := len(limits) + len(counters); {
	case i < len(limits):
		part.Limits = limits[i : i+1]
	case i < ruled:
		part.Counters = counters[i-len(limits) : i-len(limits)+1]
	default:
		part.Watches = check.GetWatches()[i-ruled : i-ruled+1]
	}
	return part
}

// maxName bounds the names in a check that become part of subjects and keys, in bytes.
// A server closes the connection of a client that sends longer subjects.
const maxName = 256

// Bounded reports whether all names in a check are short enough.
func Bounded(check *checkpb.Check) bool {
	id := check.GetIdentity()
	longest := max(len(id.GetTenant()), len(id.GetProject()), len(id.GetCaller()), len(id.GetSession()))
	for _, c := range check.GetCounters() {
		longest = max(longest, len(c.GetPolicy()), len(c.GetDetector()), len(c.GetFingerprint()))
	}
	for _, w := range check.GetWatches() {
		longest = max(longest, len(w.GetPolicy()), len(w.GetAgent()))
	}
	for _, l := range check.GetLimits() {
		longest = max(longest, len(l.GetPolicy()), len(l.GetRule()), len(l.GetKey()))
	}
	for _, w := range check.GetSemantics() {
		longest = max(longest, len(w.GetPolicy()), len(w.GetScope()))
	}
	return longest <= maxName
}
