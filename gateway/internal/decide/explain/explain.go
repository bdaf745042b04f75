// Package explain describes why a gateway treats a request as it does: the policies that
// apply, what their detectors count by, and what their rules leave.
//
// It takes the evidence and the decision. It may not know the network, a clock or metrics,
// and it decides nothing.
package explain

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
)

// Explanation says what a gateway would do with a request, and why.
type Explanation struct {
	// Bundle is the version of the policy bundle, and Source its origin: file, pushed or
	// default.
	Bundle string `json:"bundle"`
	Source string `json:"source"`
	// Format and Upstream say how the request is read and where it would go.
	Format   string `json:"format"`
	Upstream string `json:"upstream"`
	Model    string `json:"model"`
	// Caller and Session are hashes, as in events.
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Caller  string `json:"caller"`
	Session string `json:"session"`
	// Killed is the answer of a kill switch, and Exempt the scope of an exemption. With
	// either of them, no policy applies.
	Killed string `json:"killed,omitempty"`
	Exempt string `json:"exempt,omitempty"`
	// Uninspected says why the body could not be read.
	Uninspected string `json:"uninspected,omitempty"`
	// Live reports whether the detectors were asked, and Unasked why not.
	Live     bool     `json:"live"`
	Unasked  string   `json:"unasked,omitempty"`
	Policies []Policy `json:"policies"`
}

// Policy is a policy that applies to the request.
type Policy struct {
	ID         string `json:"id"`
	Shadow     bool   `json:"shadow"`
	FailClosed bool   `json:"fail_closed"`
	// Reject is the policy's answer to rejected requests; "" if the gateway chooses it.
	Reject    string     `json:"reject,omitempty"`
	Detectors []Detector `json:"detectors"`
	Rules     []Rule     `json:"rules"`
}

// Detector is a detector of a policy that evaluates the request.
type Detector struct {
	Detector string `json:"detector"`
	// Fingerprint is what the detector counts by, in hex; "" for detectors of a
	// session's history.
	Fingerprint   string `json:"fingerprint,omitempty"`
	Threshold     int    `json:"threshold,omitempty"`
	WindowSeconds int    `json:"window_seconds,omitempty"`
	// Rate is the threshold divided by the window: the identical requests per second at which
	// the detector fires.
	Rate float64 `json:"rate,omitempty"`
	// Count is the count with this request; 0 if the detectors were not asked.
	Count int `json:"count,omitempty"`
	// Would is the action that the detector would take.
	Would string `json:"would"`
	// Message explains a finding about the history, or what the semantic detector compares.
	Message string `json:"message,omitempty"`
}

// Rule is a rule of a policy that applies to the request.
type Rule struct {
	Rule      string `json:"rule"`
	Algorithm string `json:"algorithm"`
	// Missing is the descriptor that the request lacks, so that the rule is skipped.
	Missing   string  `json:"missing,omitempty"`
	Cost      float64 `json:"cost"`
	Limit     float64 `json:"limit,omitempty"`
	Remaining float64 `json:"remaining,omitempty"`
	// Price is the source of the model's price, for rules in dollars.
	Price string `json:"price,omitempty"`
	Would string `json:"would"`
}

// Case is a request with its evidence and the detectors' decision, which is nil if they
// were not asked.
type Case struct {
	Policies *bundle.Set
	Request  *request.Request
	Subject  *request.Subject
	Evidence evidence.Evidence
	Decision *checkpb.Decision
}

// Policies explains every policy that applies to the request.
func Policies(c *Case) []Policy {
	out := []Policy{}
	for _, p := range evidence.Match(c.Policies, c.Request, c.Subject) {
		out = append(out, Policy{
			ID: p.ID, Shadow: p.Shadow(c.Evidence.At) || p.HeldOut(c.Subject.Identity.GetSession()), FailClosed: p.FailClosed, Reject: string(p.Reject),
			Detectors: c.detectors(p), Rules: c.rules(p),
		})
	}
	return out
}

// allow is the action of a detector or rule without a finding.
var allow = checkpb.Action_ACTION_ALLOW.Label()

// detectors explains the detectors of a policy that are in the check.
func (c *Case) detectors(p *bundle.Policy) []Detector {
	out := []Detector{}
	for i, counter := range c.Evidence.Check.GetCounters() {
		if counter.GetPolicy() == p.ID {
			out = append(out, c.counter(i, counter))
		}
	}
	for _, w := range c.Evidence.Check.GetWatches() {
		if w.GetPolicy() == p.ID {
			out = append(out, c.watch(w))
		}
	}
	for _, w := range c.Evidence.Check.GetSemantics() {
		if w.GetPolicy() == p.ID {
			out = append(out, c.semantic(w, p))
		}
	}
	return out
}

// counter explains the counter at an index of the check.
func (c *Case) counter(i int, counter *checkpb.Counter) Detector {
	d := Detector{
		Detector: counter.GetDetector(), Fingerprint: hex.EncodeToString(counter.GetFingerprint()), Threshold: int(counter.GetThreshold()),
		WindowSeconds: int(counter.GetWindowSeconds()), Rate: float64(counter.GetThreshold()) / float64(counter.GetWindowSeconds()), Would: allow,
	}
	if counts := c.Decision.GetHitCounts(); i < len(counts) {
		d.Count = int(counts[i])
	}
	for _, f := range c.Decision.GetFindings() {
		if f.GetPolicy() == counter.GetPolicy() && f.GetDetector() == counter.GetDetector() && bytes.Equal(f.GetFingerprint(), counter.GetFingerprint()) {
			d.Would = f.GetAction().Label()
		}
	}
	return d
}

// watch explains the detectors of tool calls, by their strongest finding.
func (c *Case) watch(w *checkpb.ToolWatch) Detector {
	d := Detector{Detector: finding.Tool + ", " + finding.Cycle, Would: allow}
	strongest := checkpb.Action_ACTION_ALLOW
	for _, f := range c.Decision.GetFindings() {
		ofCalls := f.GetDetector() == finding.Tool || f.GetDetector() == finding.Cycle
		if f.GetPolicy() == w.GetPolicy() && ofCalls && f.GetAction() >= strongest {
			strongest = f.GetAction()
			d.Detector, d.Would, d.Message, d.Count = f.GetDetector(), strongest.Label(), f.Hint(), int(f.GetHitCount())
		}
	}
	return d
}

// semantic explains the detector that compares texts.
func (c *Case) semantic(w *checkpb.SemanticWatch, p *bundle.Policy) Detector {
	d := Detector{
		Detector: finding.Semantic, Would: allow,
		Message: fmt.Sprintf("%d of the %s's last %d exchanges must be more similar than %g", p.Semantic.MinMatches, p.Semantic.Scope, p.Semantic.HistorySize, p.Semantic.Threshold),
	}
	for _, f := range c.Decision.GetFindings() {
		if f.GetPolicy() == w.GetPolicy() && f.GetDetector() == finding.Semantic {
			d.Would, d.Message, d.Count = f.GetAction().Label(), f.Hint(), int(f.GetHitCount())
		}
	}
	return d
}

// rules explains the rules of a policy that apply, and those that are skipped because the
// request lacks a descriptor.
func (c *Case) rules(p *bundle.Policy) []Rule {
	out := []Rule{}
	verdicts := c.Decision.GetLimits()
	for i, l := range c.Evidence.Limits {
		if l.Wire.GetPolicy() != p.ID {
			continue
		}
		r := Rule{Rule: l.Wire.GetRule(), Algorithm: l.Rule.Algorithm, Cost: l.Wire.GetCost(), Would: allow}
		if cost := l.Rule.CostBased; cost != nil && cost.CostKey == "usd" {
			r.Price = cmp.Or(c.Policies.PriceSource(c.Request.Model()), "default_cost, since nothing prices the model")
		}
		if i < len(verdicts) {
			v := verdicts[i]
			r.Limit, r.Remaining, r.Would = v.GetLimit(), v.GetRemaining(), v.GetAction().Label()
		}
		out = append(out, r)
	}
	for _, skipped := range c.Evidence.Skipped {
		if skipped.Policy == p.ID {
			out = append(out, Rule{Rule: skipped.Rule.Name, Algorithm: skipped.Rule.Algorithm, Missing: skipped.Missing, Would: allow})
		}
	}
	return out
}
