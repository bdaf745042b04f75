package policystore

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/text/excerpt"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/status"
)

// Describe describes the policies in force at a time.
func (p *Policies) Describe(now time.Time) *status.Bundle {
	in := p.current.Load()
	b := &status.Bundle{Version: in.Version(), Source: in.source, Policies: []status.Policy{}}
	if !in.KillSwitchesOff(now) {
		for _, k := range in.KillSwitches {
			if k.ActiveAt(now) {
				b.KillSwitches++
			}
		}
	}
	all := in.Policies()
	for _, one := range all[:min(len(all), status.MaxPolicies)] {
		b.Policies = append(b.Policies, describe(one, now))
	}
	b.Omitted = len(all) - len(b.Policies)
	return b
}

func describe(p *bundle.Policy, now time.Time) status.Policy {
	out := status.Policy{ID: p.ID, Mode: "enforce", FailureMode: "open", Detectors: describeDetectors(p)}
	if p.Shadow(now) {
		out.Mode = "shadow"
	}
	if p.FailClosed {
		out.FailureMode = "closed"
	}
	for i := range p.Rules {
		out.Rules = append(out.Rules, p.Rules[i].Name)
	}
	out.Selects = describeSelector(p.Selector)
	return out
}

// wildcards turns a pattern into a text that it matches.
var wildcards = strings.NewReplacer("*", "x", "?", "x")

// describeSelector returns an example of a request that a selector selects; nil if it
// selects all.
func describeSelector(s *policy.Selector) *status.Selects {
	first := func(values policy.Strings) string {
		if len(values) == 0 {
			return ""
		}
		return wildcards.Replace(values[0])
	}
	out := &status.Selects{Path: first(s.PathExact), Model: first(s.Models), Tenant: first(s.Tenant), Project: first(s.Project)}
	for name, value := range s.Headers {
		if excerpt.SecretHeader(name) {
			out.Others = append(out.Others, "header "+name)
			continue
		}
		if out.Headers == nil {
			out.Headers = map[string]string{}
		}
		out.Headers[name] = wildcards.Replace(value)
	}
	if out.Path == "" && len(s.PathPrefix) > 0 && !slices.ContainsFunc(s.PathPrefix, coversChat) {
		out.Path = s.PathPrefix[0]
	}
	if len(s.Methods) > 0 && !slices.Contains(s.Methods, http.MethodPost) {
		out.Others = append(out.Others, "methods")
	}
	for name, values := range map[string]policy.Strings{"hosts": s.Hosts, "upstream": s.Upstream, "caller": s.Caller} {
		if len(values) > 0 {
			out.Others = append(out.Others, name)
		}
	}
	slices.Sort(out.Others)
	if reflect.DeepEqual(out, &status.Selects{}) {
		return nil
	}
	return out
}

// coversChat reports whether the path of Chat Completions has a prefix.
func coversChat(prefix string) bool {
	const chat = "/v1/chat/completions/"
	return strings.HasPrefix(chat, strings.TrimSuffix(prefix, "/")+"/")
}

func describeDetectors(p *bundle.Policy) []status.Detector {
	out := []status.Detector{}
	add := func(name string, window int, similarity float64, ladder []policy.Step) {
		d := status.Detector{Name: name, WindowSeconds: window, Similarity: similarity, Steps: []status.Step{}}
		for _, s := range ladder {
			d.Steps = append(d.Steps, status.Step{At: s.At, Action: string(s.Action)})
		}
		out = append(out, d)
	}
	if d := p.LoopDetection; d != nil {
		add("request", d.WindowSeconds, 0, d.Steps())
	}
	if d := p.Prompt; d != nil {
		add("prompt", d.WindowSeconds, 0, d.Steps())
	}
	if d := p.Tool; d != nil {
		add("tool", d.TTLSeconds, 0, toolSteps(d))
	}
	if d := p.Cycle; d != nil {
		add("cycle", 0, 0, d.Steps())
	}
	if d := p.Semantic; d != nil {
		add("semantic", d.TTLSeconds, d.Threshold, d.Steps())
	}
	return out
}

// toolSteps returns the tool detector's actions by the number of identical rounds.
func toolSteps(t *policy.Tool) []policy.Step {
	if len(t.Escalation) > 0 {
		return t.Escalation
	}
	return []policy.Step{{At: t.WarnThreshold, Action: t.WarnAction}, {At: t.BlockThreshold, Action: t.BlockAction}}
}
