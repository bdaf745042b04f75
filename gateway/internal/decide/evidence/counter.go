package evidence

import (
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

// Domains of the fingerprints.
const (
	requestDomain     = "unloop/request/1"
	uninspectedDomain = "unloop/uninspected/1"
)

// counters returns the counters of the matching policies. A tool runner's call has none.
func (m *maker) counters() []*checkpb.Counter {
	var out []*checkpb.Counter
	if m.Run != nil {
		return nil
	}
	for _, p := range m.Matched {
		if p.LoopDetection != nil {
			out = append(out, m.requestCounter(p))
		}
		if p.Prompt != nil && m.AsksPrompt() {
			out = append(out, m.promptCounter(p))
			if c := m.clockCounter(p); c != nil {
				out = append(out, c)
			}
		}
		if p.Prompt != nil && m.Uninspected != "" && p.Prompt.UninspectedMax > 0 {
			out = append(out, m.uninspectedCounter(p))
		}
	}
	return out
}

func (m *maker) requestCounter(p *bundle.Policy) *checkpb.Counter {
	l := p.LoopDetection
	return &checkpb.Counter{
		Policy: p.ID, Detector: finding.Request, Shadow: m.shadow(p), Window: windows[l.Window], Fingerprint: m.requestFingerprint(p),
		WindowSeconds: uint32(l.WindowSeconds), Threshold: uint32(l.Threshold),
		CooldownSeconds: uint32(l.CooldownSeconds), Steps: steps(l.Steps()),
	}
}

// uninspectedWindow is the window of uninspectedCounter.
const uninspectedWindow = time.Minute

// uninspectedCounter counts all unreadable bodies of a caller together: an agent that writes
// its request anew sends other bytes.
func (m *maker) uninspectedCounter(p *bundle.Policy) *checkpb.Counter {
	sum := fingerprint.New(uninspectedDomain).String(m.Identity.GetCaller()).Sum()
	return &checkpb.Counter{
		Policy: p.ID, Detector: finding.Uninspected, Shadow: m.shadow(p), Window: checkpb.Window_WINDOW_SLIDING, Fingerprint: sum[:],
		WindowSeconds: uint32(uninspectedWindow / time.Second), Threshold: uint32(p.Prompt.UninspectedMax), Steps: steps(p.Prompt.UninspectedSteps()),
	}
}

// requestFingerprint covers method, path, query, body, the policy's
// descriptors and, unless the policy counts all callers together, the caller.
func (m *maker) requestFingerprint(p *bundle.Policy) []byte {
	b := fingerprint.New(requestDomain).String(m.Method).String(m.Target.Canonical)
	query := sortedQuery(m.RawQuery)
	b.Number(len(query))
	for _, pair := range query {
		b.String(pair)
	}
	b.Digest(m.Body.Digest())
	b.Number(len(p.LimitKeys))
	for _, key := range p.LimitKeys {
		b.String(m.descriptor(key))
	}
	if p.LoopDetection.Scope != "all" {
		b.String(m.Identity.GetCaller())
	}
	return b.Sum().Bytes()
}

// sortedQuery returns the pairs of a query, sorted by key. The order of pairs with the same
// key stays, because they are a list.
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

// descriptor returns the value of a descriptor for this request, or "". An unverified claim,
// which anyone can forge, differs from a verified one.
func (m *maker) descriptor(d policy.Descriptor) string {
	value, _ := m.Descriptors.Get(d)
	if value.Unverified && value.Text != "" {
		return "unverified\x00" + value.Text
	}
	return value.Text
}
