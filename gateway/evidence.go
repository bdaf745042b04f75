package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// Domains of the fingerprints. A change of what goes into one changes its
// number, so that old and new gateways never share a counter by accident.
const (
	requestDomain = "unloop/request/1"
	promptDomain  = "unloop/prompt/3"

	uninspectedDomain = "unloop/uninspected/1"
	idempotencyDomain = "unloop/idempotency/1"
)

// counters lists what the matching policies count this request by.
func (x *exchange) counters(policies []*bundle.Policy, now time.Time) []*checkpb.Counter {
	var out []*checkpb.Counter
	if x.Run != nil {
		return nil // a tool's call is no request
	}
	for _, p := range policies {
		shadow := p.Shadow(now) || p.HeldOut(x.Identity.GetSession())
		if p.LoopDetection != nil {
			c := requestCounter(p, shadow)
			c.Fingerprint = x.requestFingerprint(p)
			out = append(out, c)
		}
		if p.Prompt != nil && x.AsksPrompt() {
			c := promptCounter(p, shadow)
			x.setPrompt(c, p.Prompt, now)
			out = append(out, c)
		}
		if p.Prompt != nil && x.Uninspected != "" && p.Prompt.UninspectedMax > 0 {
			out = append(out, x.uninspectedCounter(p, shadow))
		}
	}
	return out
}

func requestCounter(p *bundle.Policy, shadow bool) *checkpb.Counter {
	l := p.LoopDetection
	return &checkpb.Counter{
		Policy: p.ID, Detector: evidence.DetectorRequest, Shadow: shadow, Window: windows[l.Window],
		WindowSeconds: uint32(l.WindowSeconds), Threshold: uint32(l.Threshold),
		CooldownSeconds: uint32(l.CooldownSeconds), Steps: steps(l.Steps()),
	}
}

func promptCounter(p *bundle.Policy, shadow bool) *checkpb.Counter {
	d := p.Prompt
	return &checkpb.Counter{
		Policy: p.ID, Detector: evidence.DetectorPrompt, Shadow: shadow, Window: windows[d.Window],
		WindowSeconds: uint32(d.WindowSeconds), Threshold: uint32(d.MaxHits),
		CooldownSeconds: uint32(d.CooldownSeconds), Steps: steps(d.Steps()),
	}
}

// uninspectedWindow is the window in which bodies that can't be read are counted.
const uninspectedWindow = time.Minute

// uninspectedCounter counts all of a caller's bodies that can't be read, whatever
// they are: text that is written anew each time counts as new each time otherwise.
func (x *exchange) uninspectedCounter(p *bundle.Policy, shadow bool) *checkpb.Counter {
	sum := fingerprint.New(uninspectedDomain).String(x.Identity.GetCaller()).Sum()
	return &checkpb.Counter{
		Policy: p.ID, Detector: evidence.DetectorUninspected, Shadow: shadow, Window: checkpb.Window_WINDOW_SLIDING, Fingerprint: sum[:],
		WindowSeconds: uint32(uninspectedWindow / time.Second), Threshold: uint32(p.Prompt.UninspectedMax), Steps: steps(p.Prompt.UninspectedSteps()),
	}
}

var windows = map[string]checkpb.Window{
	policy.WindowRefresh: checkpb.Window_WINDOW_REFRESH,
	policy.WindowSliding: checkpb.Window_WINDOW_SLIDING,
	policy.WindowFixed:   checkpb.Window_WINDOW_FIXED,
}

var actions = map[policy.Action]checkpb.Action{
	policy.Warn:     checkpb.Action_ACTION_WARN,
	policy.Hint:     checkpb.Action_ACTION_HINT,
	policy.Throttle: checkpb.Action_ACTION_THROTTLE,
	policy.Reject:   checkpb.Action_ACTION_REJECT,
	policy.Break:    checkpb.Action_ACTION_BREAK,
}

func steps(ladder []policy.Step) []*checkpb.Step {
	out := make([]*checkpb.Step, len(ladder))
	for i, s := range ladder {
		out[i] = &checkpb.Step{At: uint32(s.At), Action: actions[s.Action]}
	}
	return out
}

// requestFingerprint covers method, path, query, body, the policy's
// descriptors and, unless the policy counts all callers together, the caller.
func (x *exchange) requestFingerprint(p *bundle.Policy) []byte {
	b := fingerprint.New(requestDomain).String(x.Method).String(x.Target.Canonical)
	query := sortedQuery(x.RawQuery)
	b.Number(len(query))
	for _, pair := range query {
		b.String(pair)
	}
	b.Digest(x.Body.Digest())
	b.Number(len(p.LimitKeys))
	for _, key := range p.LimitKeys {
		b.String(x.descriptor(key))
	}
	if p.LoopDetection.Scope != "all" {
		b.String(x.Identity.GetCaller())
	}
	sum := b.Sum()
	return sum[:]
}

// sortedQuery is the query's pairs in an order of their own. Pairs of one key
// keep theirs: repeated keys are a list.
func sortedQuery(raw string) []string {
	if raw == "" {
		return nil
	}
	pairs := strings.Split(raw, "&")
	slices.SortStableFunc(pairs, func(a, b string) int {
		ka, _, _ := strings.Cut(a, "=")
		kb, _, _ := strings.Cut(b, "=")
		return strings.Compare(ka, kb)
	})
	return pairs
}

// descriptor is the value of a descriptor for this request, or "". A claim that
// anyone can have written is another value than the same one verified.
func (x *exchange) descriptor(d policy.Descriptor) string {
	value, _ := x.Descriptors.Get(d)
	if value.Unverified && value.Text != "" {
		return "unverified\x00" + value.Text
	}
	return value.Text
}

// idempotency is the hash of the key by which a client says that two requests
// are one.
func idempotency(h http.Header) string {
	key := h.Get("Idempotency-Key")
	if key == "" {
		return ""
	}
	return fingerprint.New(idempotencyDomain).String(key).Sum().String()
}

// isRetry says whether the client calls the request its own retry.
func isRetry(h http.Header) bool {
	n := h.Get("X-Stainless-Retry-Count")
	return n != "" && n != "0"
}
