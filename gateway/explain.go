package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/checkapi"
	"github.com/unloop/unloop/gateway/internal/checker"
	"github.com/unloop/unloop/gateway/internal/cluster"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Explanation is why a request would be treated as it would be.
type Explanation struct {
	// Bundle is the version that it was judged by, and Source where that came
	// from: file, pushed or default.
	Bundle string `json:"bundle"`
	Source string `json:"source"`
	// Format and Upstream are how the request is read and where it would go.
	Format   string `json:"format"`
	Upstream string `json:"upstream"`
	Model    string `json:"model"`
	// Caller and Session are the hashes that events would show.
	Tenant  string `json:"tenant"`
	Project string `json:"project"`
	Caller  string `json:"caller"`
	Session string `json:"session"`
	// Killed is what a kill switch would answer, and Exempt the scope of an
	// exemption; then no policy is looked at.
	Killed string `json:"killed,omitempty"`
	Exempt string `json:"exempt,omitempty"`
	// Uninspected says why the body could not be read.
	Uninspected string `json:"uninspected,omitempty"`
	// Live says whether the detectors were asked; Unasked why not.
	Live     bool              `json:"live"`
	Unasked  string            `json:"unasked,omitempty"`
	Policies []PolicyExplained `json:"policies"`
}

// PolicyExplained is one policy that matches.
type PolicyExplained struct {
	ID         string              `json:"id"`
	Shadow     bool                `json:"shadow"`
	FailClosed bool                `json:"fail_closed"`
	Detectors  []DetectorExplained `json:"detectors"`
	Rules      []RuleExplained     `json:"rules"`
}

// DetectorExplained is one detector of a policy that looks at the request.
type DetectorExplained struct {
	Detector string `json:"detector"`
	// Fingerprint is what the detector counts by, in hex; empty for those that
	// look at the session's history.
	Fingerprint   string `json:"fingerprint,omitempty"`
	Threshold     int    `json:"threshold,omitempty"`
	WindowSeconds int    `json:"window_seconds,omitempty"`
	// Rate is the threshold over the window: the identical requests a second from
	// about which on it fires.
	Rate float64 `json:"rate,omitempty"`
	// Count is what this request would be; 0 if the detectors were not asked.
	Count int `json:"count,omitempty"`
	// Would is what the detector would do.
	Would string `json:"would"`
	// Message explains the finding of a detector that looks at the history, or
	// what the semantic detector compares.
	Message string `json:"message,omitempty"`
}

// RuleExplained is one rule of a policy whose match holds.
type RuleExplained struct {
	Rule      string `json:"rule"`
	Algorithm string `json:"algorithm"`
	// Missing is the descriptor for which the rule is skipped.
	Missing   string  `json:"missing,omitempty"`
	Cost      float64 `json:"cost"`
	Limit     float64 `json:"limit,omitempty"`
	Remaining float64 `json:"remaining,omitempty"`
	// Price says where the model's price comes from, of rules in dollars.
	Price string `json:"price,omitempty"`
	Would string `json:"would"`
}

// ErrRequest says that what is to be explained is no request.
var ErrRequest = errors.New("not a request")

// Explain says what would be done with a request, which is described as
// POST /unloop/v1/check takes it, with headers in a field of their own. Nothing is counted. nc is nil to judge by the
// configured bundle alone.
func Explain(ctx context.Context, cfg Config, nc *nats.Conn, request []byte) (*Explanation, error) {
	e, err := NewEvidence(cfg, time.Now)
	if err != nil {
		return nil, err
	}
	g := e.gateway
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if nc != nil {
		if err := g.learn(ctx, nc); err != nil {
			return nil, err
		}
	}
	r, err := described(ctx, request)
	if err != nil {
		return nil, err
	}
	d, fault := checkapi.Reader{Table: g.table, MaxBytes: g.cfg.MaxInspectBytes}.Read(r)
	if fault != nil {
		return nil, fmt.Errorf("%w: %s", ErrRequest, fault.Message)
	}
	x := checks{g}.exchange(d)
	x.Asked, x.Peek = false, true
	g.parse(x)
	g.identify(x)
	out := x.explanation(g)
	if g.override(x); x.operator.Stops() {
		out.Killed = x.operator.Message()
		return out, nil
	}
	if out.Exempt = x.operator.Exempt; out.Exempt != "" {
		return out, nil
	}
	if g.gather(x) && nc != nil {
		x.Decision, _, err = g.checker.Check(ctx, x.Check)
		out.Live = err == nil
		if err != nil {
			out.Unasked = reason(err)
		}
	}
	out.Policies = g.explainPolicies(x)
	return out, nil
}

// described is the check of a request with the headers that its description
// names, which a check itself would bear.
func described(ctx context.Context, request []byte) (*http.Request, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(request, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	var headers map[string]string
	if raw, ok := fields["headers"]; ok {
		if err := json.Unmarshal(raw, &headers); err != nil {
			return nil, fmt.Errorf("%w: headers must be an object of texts: %w", ErrRequest, err)
		}
		delete(fields, "headers")
	}
	check, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, checkapi.CheckPath, bytes.NewReader(check))
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r, nil
}

// learn takes over from a running cluster what its gateways share.
func (g *Gateway) learn(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	key, err := g.cfg.hashKey()
	if err != nil {
		return err
	}
	g.shared = cluster.New(key, g.log)
	bundle, err := g.shared.Read(ctx, js)
	if err != nil {
		return err
	}
	if bundle != nil {
		if err := g.bundles.LoadPushed(bundle); err != nil {
			return fmt.Errorf("read the pushed bundle: %w", err)
		}
	}
	conn, err := natskit.Borrow(nc)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, conn.Close)
	g.checker = checker.New(conn, g.cfg.CheckTimeout, g.now, prometheus.NewRegistry())
	return nil
}

func (x *exchange) explanation(g *Gateway) *Explanation {
	return &Explanation{
		Bundle: x.rules.Version(), Source: g.bundles.Source(), Format: x.Provider.Name(), Upstream: x.Target.Upstream, Model: x.Model(),
		Tenant: x.Identity.GetTenant(), Project: x.Identity.GetProject(), Caller: x.Identity.GetCaller(), Session: x.Identity.GetSession(),
		Uninspected: x.Uninspected, Policies: []PolicyExplained{},
	}
}

func (g *Gateway) explainPolicies(x *exchange) []PolicyExplained {
	out := []PolicyExplained{}
	for _, p := range evidence.Match(x.rules.Set, &x.Request, &x.Subject) {
		e := PolicyExplained{
			ID: p.ID, Shadow: p.Shadow(g.now()) || p.HeldOut(x.Identity.GetSession()), FailClosed: p.FailClosed,
			Detectors: x.explainDetectors(p.ID), Rules: x.explainRules(p),
		}
		out = append(out, e)
	}
	return out
}

// explainDetectors tells of the detectors that the check names for a policy.
func (x *exchange) explainDetectors(id string) []DetectorExplained {
	out := []DetectorExplained{}
	for i, c := range x.Check.GetCounters() {
		if c.GetPolicy() != id {
			continue
		}
		e := DetectorExplained{
			Detector: c.GetDetector(), Fingerprint: hex.EncodeToString(c.GetFingerprint()), Threshold: int(c.GetThreshold()),
			WindowSeconds: int(c.GetWindowSeconds()), Rate: float64(c.GetThreshold()) / float64(c.GetWindowSeconds()), Would: checkpb.Action_ACTION_ALLOW.Label(),
		}
		if counts := x.Decision.GetHitCounts(); i < len(counts) {
			e.Count = int(counts[i])
		}
		for _, f := range x.Decision.GetFindings() {
			if f.GetPolicy() == id && f.GetDetector() == c.GetDetector() && bytes.Equal(f.GetFingerprint(), c.GetFingerprint()) {
				e.Would = f.GetAction().Label()
			}
		}
		out = append(out, e)
	}
	for _, w := range x.Check.GetWatches() {
		if w.GetPolicy() == id {
			out = append(out, x.explainWatch(w))
		}
	}
	for _, w := range x.Check.GetSemantics() {
		if w.GetPolicy() == id {
			out = append(out, x.explainSemantic(w, x.rules.ByID(id)))
		}
	}
	return out
}

// explainWatch tells of the detectors that look at a session's tool calls.
func (x *exchange) explainWatch(w *checkpb.ToolWatch) DetectorExplained {
	e := DetectorExplained{Detector: "tool, cycle", Would: checkpb.Action_ACTION_ALLOW.Label()}
	strongest := checkpb.Action_ACTION_ALLOW
	for _, f := range x.Decision.GetFindings() {
		if f.GetPolicy() == w.GetPolicy() && !outcome.WaitingHelps(f) && f.GetDetector() != evidence.DetectorSemantic && f.GetAction() >= strongest {
			strongest = f.GetAction()
			e.Detector, e.Would, e.Message, e.Count = f.GetDetector(), strongest.Label(), f.GetMessage(), int(f.GetHitCount())
		}
	}
	return e
}

// explainSemantic tells of the detector that compares what texts say.
func (x *exchange) explainSemantic(w *checkpb.SemanticWatch, p *bundle.Policy) DetectorExplained {
	e := DetectorExplained{
		Detector: evidence.DetectorSemantic, Would: checkpb.Action_ACTION_ALLOW.Label(),
		Message: fmt.Sprintf("%d of the %s's last %d exchanges must be more similar than %g", w.GetMinMatches(), p.Semantic.Scope, w.GetHistorySize(), w.GetThreshold()),
	}
	for _, f := range x.Decision.GetFindings() {
		if f.GetPolicy() == w.GetPolicy() && f.GetDetector() == evidence.DetectorSemantic {
			e.Would, e.Message, e.Count = f.GetAction().Label(), f.GetMessage(), int(f.GetHitCount())
		}
	}
	return e
}

// explainRules tells of a policy's rules that apply, and of those that are
// skipped for a missing descriptor.
func (x *exchange) explainRules(p *bundle.Policy) []RuleExplained {
	out := []RuleExplained{}
	for i, l := range x.Limits {
		if l.Wire.GetPolicy() != p.ID {
			continue
		}
		e := RuleExplained{Rule: l.Wire.GetRule(), Algorithm: l.Rule.Algorithm, Cost: l.Wire.GetCost(), Would: checkpb.Action_ACTION_ALLOW.Label()}
		if c := l.Rule.CostBased; c != nil && c.CostKey == "usd" {
			e.Price = cmp.Or(x.rules.PriceSource(x.Model()), "default_cost, since nothing prices the model")
		}
		if verdicts := x.Decision.GetLimits(); i < len(verdicts) {
			v := verdicts[i]
			e.Limit, e.Remaining, e.Would = v.GetLimit(), v.GetRemaining(), v.GetAction().Label()
		}
		out = append(out, e)
	}
	for _, skipped := range x.Skipped {
		if skipped.Policy == p.ID {
			out = append(out, RuleExplained{
				Rule: skipped.Rule.Name, Algorithm: skipped.Rule.Algorithm, Missing: skipped.Missing, Would: checkpb.Action_ACTION_ALLOW.Label(),
			})
		}
	}
	return out
}
