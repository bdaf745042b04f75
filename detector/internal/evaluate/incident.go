package evaluate

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/openloop"
)

// newIncident returns a finding of a check for the record of its incident.
func newIncident(check *checkpb.Check, f *checkpb.Finding, at time.Time) Incident {
	return Incident{LoopID: &f.LoopId, Finding: incident.Finding{
		Conversation: conversation(check, f.GetFingerprint()), Policy: f.GetPolicy(), Detector: f.GetDetector(), Shadow: f.GetShadow(),
		Action: f.GetAction(), Answer: f.GetAnswer(), Fingerprint: f.GetFingerprint(), Rule: f.GetRule(), Tool: published(f.GetTool()),
		Hits: 1, Count: int(f.GetHitCount()), Threshold: int(f.GetThreshold()), WindowSeconds: int(f.GetWindowSeconds()),
		CooldownSeconds: int(f.GetCooldownSeconds()), Similarity: f.GetSimilarity(),
		Identity: check.GetIdentity(), RequestID: check.GetRequestId(), Traceparent: traceparent(check), Model: strings.Clone(check.GetModel()),
		Related: related(check, f.GetPolicy(), f.GetShadow()), Excerpt: excerpt(check, f.GetPolicy()), At: at,
	}}
}

// Report is what a check adds to one incident.
type Report struct {
	Findings []incident.Finding
	loopIDs  []*string
}

// Identify sets the incident's id in the findings of the decision.
func (r *Report) Identify(loopID string) {
	for _, id := range r.loopIDs {
		*id = loopID
	}
}

// Reports returns what the results of a check's parts add to the records of their
// incidents, and the incidents that end before.
func Reports(check *checkpb.Check, results []Result) (ended []incident.Finding, all []*Report) {
	for i := range results {
		for _, in := range results[i].Incidents {
			if in.Over {
				ended = append(ended, in.Finding)
				continue
			}
			key := in.Key()
			n := slices.IndexFunc(all, func(r *Report) bool { return r.Findings[0].Key() == key })
			if n < 0 {
				n, all = len(all), append(all, &Report{})
			}
			all[n].Findings, all[n].loopIDs = append(all[n].Findings, in.Finding), append(all[n].loopIDs, in.LoopID)
		}
	}
	for _, r := range all {
		countOnce(check, r.Findings)
	}
	return ended, all
}

// countOnce counts a request once in its incident, by its strongest finding.
func countOnce(check *checkpb.Check, findings []incident.Finding) {
	strongest, requests, stopped := 0, 0, 0
	for i := range findings {
		f := &findings[i]
		if f.Action > findings[strongest].Action {
			strongest = i
		}
		if requests = max(requests, f.Hits); f.Action.Stops() && !f.Shadow {
			stopped = max(stopped, f.Hits)
		}
		f.Hits = 0
	}
	findings[strongest].Hits, findings[strongest].Saved = requests, saved(check, stopped)
}

// saved returns what requests of a check's size would have cost.
func saved(check *checkpb.Check, requests int) event.Saved {
	s := event.Saved{Requests: requests, InputTokens: requests * int(check.GetInputTokens())}
	if check.Usd != nil && requests > 0 {
		usd := float64(requests) * check.GetUsd()
		s.USD = &usd
	}
	return s
}

// traceparentLength is the length of a traceparent of version 0.
const traceparentLength = 55

// traceparent returns the trace context of a check; "" if it is none. Peers may send
// anything.
func traceparent(check *checkpb.Check) string {
	parent := check.GetTraceparent()
	if len(parent) != traceparentLength || strings.Trim(parent, "0123456789abcdef-") != "" {
		return ""
	}
	return parent
}

// conversation returns what an incident belongs to, in hex: the session, or the fingerprint
// if there is no session. Peers may send anything as a session, so values other than hashes
// are hashed.
func conversation(check *checkpb.Check, fingerprint []byte) string {
	session := check.GetIdentity().GetSession()
	if session == "" {
		return hex.EncodeToString(fingerprint)
	}
	if _, err := hex.DecodeString(session); err == nil && len(session) <= 2*sha256.Size {
		return session
	}
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:])
}

// excerpt returns the part of a check's text that the incidents of a policy may show;
// "" unless the policy asks for it.
func excerpt(check *checkpb.Check, policy string) string {
	e := check.GetExcerpt()
	if !slices.Contains(e.GetPolicies(), policy) {
		return ""
	}
	runes := 0
	for i := range e.GetText() {
		if runes++; runes > event.MaxExcerpt { // no gateway sends so much
			return e.GetText()[:i]
		}
	}
	return e.GetText()
}

// published returns the names of a finding's tools for events. It returns "" if a name
// has other characters than names of tools have: the model may have put text there.
func published(tools string) string {
	strange := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_-.:/,", c)
	}
	if strings.ContainsFunc(tools, strange) {
		return ""
	}
	return tools
}

// related returns the records that a request has in a policy beside its counters: the
// streaks of its scopes and its agent's tool calls.
func related(check *checkpb.Check, policy string, shadow bool) []openloop.Counter {
	var out []openloop.Counter
	for _, w := range check.GetSemantics() {
		if w.GetPolicy() == policy && w.GetShadow() == shadow {
			out = append(out, openloop.Counter{
				Detector: finding.Semantic, Fingerprint: hex.EncodeToString(w.GetScope()), KeptSeconds: int(streakTTL(w) / time.Second),
			})
		}
	}
	for _, w := range check.GetWatches() {
		if w.GetPolicy() == policy && w.GetShadow() == shadow {
			out = append(out, openloop.Counter{
				Detector: finding.Tool, Fingerprint: hex.EncodeToString(w.GetAgent()), KeptSeconds: keptSeconds(w),
			})
		}
	}
	return out
}

// keptSeconds returns how long the policy of a watch remembers a session; 0 if unknown.
func keptSeconds(w *checkpb.ToolWatch) int {
	p, err := paramsOf(w)
	if err != nil {
		return 0
	}
	return p.TTLSeconds
}

// relatedCounters returns the counters that a request has in a policy.
func relatedCounters(check *checkpb.Check, policy string, shadow bool) []openloop.Counter {
	var out []openloop.Counter
	for _, c := range check.GetCounters() {
		if c.GetPolicy() == policy && c.GetShadow() == shadow {
			out = append(out, openloop.Counter{
				Detector: c.GetDetector(), Fingerprint: hex.EncodeToString(c.GetFingerprint()), KeptSeconds: int(c.GetWindowSeconds()),
			})
		}
	}
	return out
}
