// Package incident is the pure core of incidents: it adds findings to the record
// of an incident. There is one incident for each policy and conversation.
//
// It knows neither how a loop is found nor how records are stored and events
// published, and it reads no clock.
package incident

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
)

const (
	// maxFindings bounds the findings in a record, and maxCounters the counters of each
	// detector.
	maxFindings = 16
	maxCounters = 64
	// maxUpdates is how many writes a record remembers: more than are tried again
	// at once.
	maxUpdates = 8
	// maxSkew is how far detectors' clocks may be apart before a record's times are
	// taken for wrong.
	maxSkew = time.Minute
	// FlushEvery is how long findings of an open incident are gathered before its
	// record is written again.
	FlushEvery = 500 * time.Millisecond
	// closing is how long a record at least outlives its incident, since findings are gathered
	// before they are written.
	closing = 2 * FlushEvery
	// keepOver is how much longer a record is stored, for a detector that starts later to
	// resolve it.
	keepOver = 7 * 24 * time.Hour
	// loop.ongoing is published when the number of requests has grown by the factor growth, or
	// at all within growthTime.
	growth     = 10
	growthTime = time.Minute
)

// Finding is a finding with everything that its incident records.
type Finding struct {
	// Conversation is the hash of the session, or the fingerprint, in hex.
	Conversation string
	Policy       string
	Detector     string
	Shadow       bool
	Action       checkpb.Action
	Answer       checkpb.Answer
	Fingerprint  []byte
	// Rule and Tool are event.Finding's.
	Rule, Tool string
	Calls      []event.Call
	// Hits is the number of requests that count in the incident with this finding, Count
	// the detector's count after them.
	Hits, Count     int
	Threshold       int
	WindowSeconds   int
	CooldownSeconds int
	// Kept is the shortest time that the incident stays open.
	Kept time.Duration
	// Similarity of the newest exchange to earlier ones; 0 if unknown.
	Similarity float64
	Identity   *checkpb.Identity
	RequestID  string
	// Traceparent is event.Event's.
	Traceparent string
	Model       string
	// Saved is what the requests that were stopped would have cost.
	Saved event.Saved
	// Related are other counters of the same request and policy: a release of the
	// incident resets them too.
	Related []openloop.Counter
	// Excerpt is the part of the text that events may show; "" for none.
	Excerpt string
	At      time.Time
}

// Merges reports whether f and a later finding can be written as one.
func (f *Finding) Merges(later *Finding) bool {
	return f.Detector == later.Detector && f.Rule == later.Rule && f.Action == later.Action &&
		bytes.Equal(f.Fingerprint, later.Fingerprint)
}

// Merge returns the finding to write for f and a later one.
func (f *Finding) Merge(later Finding) Finding {
	later.Hits += f.Hits
	later.Saved = plus(f.Saved, later.Saved)
	later.WindowSeconds = max(f.WindowSeconds, later.WindowSeconds)
	for _, c := range f.Related {
		later.Related = withCounter(later.Related, c)
	}
	return later
}

// Record is an open incident. The zero value is none.
type Record struct{ openloop.Record }

// Key returns the incident's key in its bucket.
func (f *Finding) Key() string {
	return schemas.IncidentKey(f.Shadow, f.Policy, f.Conversation)
}

// TTL returns how long the incident stays open without another finding.
func (f *Finding) TTL() time.Duration {
	return max(time.Duration(max(f.WindowSeconds, f.CooldownSeconds, 1))*time.Second, f.Kept)
}

// New returns the record of an incident that begins with a finding, which is not
// added yet.
func New(f *Finding, loopID string) Record {
	mode := event.ModeEnforce
	if f.Shadow {
		mode = event.ModeShadow
	}
	return Record{openloop.Record{
		Data: event.Data{
			LoopID: loopID, Detector: f.Detector, Policy: f.Policy, Mode: mode,
			Action: f.Action.Label(), Answer: f.Answer.Label(), Fingerprint: hex.EncodeToString(f.Fingerprint),
			Threshold: f.Threshold, WindowSeconds: f.WindowSeconds, CooldownSeconds: f.CooldownSeconds,
			Model: f.Model, Session: f.Identity.GetSession(), Caller: f.Identity.GetCaller(),
			FirstSeen: f.At.UTC(), LastSeen: f.At.UTC(),
		},
		Tenant: f.Identity.GetTenant(), Project: f.Identity.GetProject(), RequestID: f.RequestID, Traceparent: f.Traceparent,
	}}
}

// Add returns the record with one more finding. The record describes its strongest
// finding, and its end never moves to an earlier time. The returned record shares
// no slice with r.
func (r Record) Add(f *Finding) Record {
	fp := hex.EncodeToString(f.Fingerprint)
	r = r.at(f.At.UTC())
	r.Ends = Later(r.Ends, f.At.UTC().Add(f.TTL()))
	r.HitCount = max(r.HitCount, f.Count)
	if r.isLedBy(f, fp) {
		r.Action, r.Answer = f.Action.Label(), f.Answer.Label()
		r.Detector, r.Fingerprint, r.Threshold = f.Detector, fp, f.Threshold
	}
	r.Saved = plus(r.Saved, f.Saved)
	r.Requests += f.Hits
	r = r.with(f, fp)
	r.Counters = r.counters(f, fp)
	return r
}

// isLedBy reports whether a finding describes the incident better than those before: its action
// is stronger, or as strong and its detector is more specific. The order of the findings makes
// no difference.
func (r Record) isLedBy(f *Finding, fp string) bool {
	return cmp.Or(
		cmp.Compare(f.Action, checkpb.ActionOf(r.Action)),
		cmp.Compare(slices.Index(specific, f.Detector), slices.Index(specific, r.Detector)),
		cmp.Compare(fp, r.Fingerprint),
	) > 0
}

// specific are the detectors that name what repeats, the most specific one last.
var specific = []string{"semantic", "cycle", "tool"}

// at returns the record as of a time. Times that are further ahead than clocks may
// differ are moved back; the time until the incident's end stays the same.
func (r Record) at(now time.Time) Record {
	if r.LastSeen.After(now.Add(maxSkew)) {
		ahead := r.LastSeen.Sub(now)
		r.LastSeen, r.Ends = now, r.ends().Add(-ahead)
		if r.FirstSeen.After(now) {
			r.FirstSeen = now
		}
		return r
	}
	r.Ends = r.ends()
	r.LastSeen = Later(r.LastSeen, now)
	return r
}

// ends returns the end of the incident. Records of older detectors have none.
func (r Record) ends() time.Time {
	if !r.Ends.IsZero() {
		return r.Ends
	}
	return r.LastSeen.Add(time.Duration(max(r.WindowSeconds, r.CooldownSeconds, 1)) * time.Second)
}

// Left returns how long the incident stays open after its newest finding.
func (r Record) Left() time.Duration { return max(r.ends().Sub(r.LastSeen), 0) }

// TTL returns how long the record is stored, in whole seconds. It outlives the incident.
func (r Record) TTL() time.Duration {
	return (r.Left() + closing + keepOver).Truncate(time.Second) + time.Second
}

// IsOver reports whether the incident has ended, or nothing was found for its window.
func (r Record) IsOver(now time.Time) bool { return r.Over != "" || r.Remaining(now) <= 0 }

// Remaining returns how long it takes until the incident is over.
func (r Record) Remaining(now time.Time) time.Duration { return r.ends().Add(closing).Sub(now) }

// Follow returns the record of a new incident in the place of this one, which is over: its
// end is still to be announced.
func (r Record) Follow(f *Finding, loopID string) Record {
	next := New(f, loopID)
	former := r.Record
	former.Counters, former.Updates, former.Former = nil, nil, nil
	if former.Over == "" {
		former.Over = event.ReasonExpired
	}
	next.Former = &former
	return next
}

// Has reports whether the record has a write, by its mark.
func (r Record) Has(mark string) bool { return slices.Contains(r.Updates, mark) }

// Apply returns the record with the findings of one write. It returns false if the
// record has that write already, by its mark.
func (r Record) Apply(mark string, findings []Finding) (Record, bool) {
	if r.Has(mark) {
		return r, false
	}
	for i := range findings {
		r = r.Add(&findings[i])
	}
	kept := r.Updates[max(0, len(r.Updates)-maxUpdates+1):]
	r.Updates = append(slices.Clone(kept), mark)
	return r.report(), true
}

// report records the incident's size if it has grown so much that loop.ongoing is due, and
// counts that event in Reported.Number. The first size is that of loop.detected.
func (r Record) report() Record {
	last := r.Reported
	switch {
	case last.At.IsZero():
		r.Reported = openloop.Reported{Requests: r.Requests, At: r.LastSeen}
	case r.Requests >= growth*max(last.Requests, 1), r.Requests > last.Requests && r.LastSeen.Sub(last.At) >= growthTime:
		r.Reported = openloop.Reported{Requests: r.Requests, At: r.LastSeen, Number: last.Number + 1}
	}
	return r
}

// plus returns the sum of two savings. It changes neither.
func plus(a, b event.Saved) event.Saved {
	sum := event.Saved{Requests: a.Requests + b.Requests, InputTokens: a.InputTokens + b.InputTokens, USD: cmp.Or(a.USD, b.USD)}
	if a.USD != nil && b.USD != nil {
		usd := *a.USD + *b.USD
		sum.USD = &usd
	}
	return sum
}

// with returns the record with a finding in the place of the one before it of the same
// detector, rule and fingerprint. Detectors write their findings in any order, so an older
// one changes nothing.
func (r Record) with(f *Finding, fp string) Record {
	now := event.Finding{
		Detector: f.Detector, Action: f.Action.Label(), Answer: f.Answer.Label(), Fingerprint: fp, HitCount: f.Count,
		Threshold: f.Threshold, WindowSeconds: f.WindowSeconds, Similarity: f.Similarity,
		Rule: f.Rule, Tool: f.Tool, Calls: f.Calls, Excerpt: f.Excerpt,
	}
	at := f.At.UnixMilli()
	i := slices.IndexFunc(r.Findings, func(e event.Finding) bool {
		return e.Detector == f.Detector && e.Fingerprint == fp && e.Rule == f.Rule
	})
	switch {
	case i < 0 && len(r.Findings) >= maxFindings:
		return r
	case i < 0:
		i, r.Findings = len(r.Findings), append(slices.Clone(r.Findings), now)
	case i < len(r.FoundAt) && at < min(r.FoundAt[i], r.LastSeen.UnixMilli()):
		return r
	default:
		if now.Calls == nil { // what was stored with the session has none
			now.Calls = r.Findings[i].Calls
		}
		r.Findings = slices.Clone(r.Findings)
		r.Findings[i] = now
	}
	found := make([]int64, len(r.Findings))
	copy(found, r.FoundAt)
	found[i] = at
	if r.FoundAt = found; f.Similarity > 0 {
		r.Similarity = f.Similarity
	}
	return r
}

// counters returns the record's counters with that of a finding.
func (r Record) counters(f *Finding, fp string) []openloop.Counter {
	all := withCounter(r.Counters, openloop.Counter{Detector: f.Detector, Fingerprint: fp, KeptSeconds: f.WindowSeconds})
	for _, c := range f.Related {
		all = withCounter(all, c)
	}
	return all
}

// withCounter returns the counters with c added, or with the longer of both storage
// times if c is listed. It changes no list in place.
func withCounter(all []openloop.Counter, c openloop.Counter) []openloop.Counter {
	same := 0
	for i, known := range all {
		switch {
		case known.Detector != c.Detector:
		case known.Fingerprint != c.Fingerprint:
			same++
		case known.KeptSeconds >= c.KeptSeconds:
			return all
		default:
			all = slices.Clone(all)
			all[i].KeptSeconds = c.KeptSeconds
			return all
		}
	}
	if same >= maxCounters {
		return all
	}
	return append(slices.Clone(all), c)
}

// Overflowing returns the detectors whose list of counters in the record is full, so
// that the incident may have more of them.
func Overflowing(in openloop.Record) []string {
	var full []string
	n := map[string]int{}
	for _, c := range in.Counters {
		if n[c.Detector]++; n[c.Detector] == maxCounters {
			full = append(full, c.Detector)
		}
	}
	return full
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Event returns the record's event of a type. Every detector gives it the same id,
// so that JetStream drops duplicates.
func (r Record) Event(typ event.Type, at time.Time) event.Event {
	id := r.LoopID + "." + string(typ)
	if typ == event.Ongoing {
		id += "." + strconv.Itoa(r.Reported.Number)
	}
	e := event.New(typ, id, at)
	e.TenantID, e.ProjectID, e.RequestID, e.Data, e.Traceparent = r.Tenant, r.Project, r.RequestID, r.Data, r.Traceparent
	if typ == event.Resolved {
		e.Data.Reason = r.Over
	}
	if e.Data.Findings == nil {
		e.Data.Findings = []event.Finding{}
	}
	return e
}
