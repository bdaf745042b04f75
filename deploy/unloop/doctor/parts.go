package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas/status"
)

// needed lists the services of a system, and what happens without each.
var needed = []struct {
	service string
	state   State
	without string
}{
	{"gateway", Fault, "no request is checked"},
	{"detector", Fault, "requests pass without a check"},
	{"embedworker", Warning, "loops in other words are not found"},
	{"notifier", Warning, "nobody is notified of loops"},
}

func (e *examination) checkParts(context.Context) (all []Finding) {
	if e.js == nil {
		return nil
	}
	versions := map[string]bool{}
	for _, n := range needed {
		found := Parts(e.parts, n.service)
		for _, p := range found {
			versions[p.Version] = true
		}
		all = append(all, partsFinding(n.service, n.state, n.without, found))
	}
	all = append(all, natsFindings(e.parts)...)
	if len(versions) > 1 {
		all = append(all, Finding{"versions", Warning, "the parts have different versions", "finish the upgrade: restart the parts that `unloop status` shows with the earlier version"})
	}
	return all
}

// natsFindings returns the problems that parts report about NATS: refused messages,
// operators' records that are not in force, and streams with too few replicas.
func natsFindings(parts []status.Status) (all []Finding) {
	lacking := map[string]bool{}
	for _, p := range parts {
		for _, remark := range p.Remarks {
			all = append(all, Finding{p.Service, Warning, remark + " (" + p.Host + ")", "push the policies again or set the block anew as the operator; `unloop policy history` and `unloop overrides` show what is stored"})
		}
		if p.Refused > 0 {
			all = append(all, Finding{p.Service, Warning, fmt.Sprintf("NATS refused %d of its messages and subscriptions on %s: its user's permissions do not allow them", p.Refused, p.Host),
				"look at its log, which names the subjects; docs/nats.md has the permissions of each service"})
		}
		for stream := range p.MissingReplicas {
			lacking[stream] = true
		}
	}
	if len(lacking) > 0 {
		all = append(all, Finding{"streams", Warning, "fewer replicas than the parts ask for (--replicas): " + strings.Join(slices.Sorted(maps.Keys(lacking)), ", "), "unloop nats init --replicas N"})
	}
	return all
}

// partsFinding returns the finding about the running parts of one service.
func partsFinding(service string, state State, without string, found []status.Status) Finding {
	if len(found) == 0 {
		return Finding{service, state, "none is running: " + without, "start one: `unloop " + service + " --nats URL`, or `unloop up` with all parts"}
	}
	var reasons []string
	for _, p := range found {
		if !p.Ready {
			reasons = append(reasons, p.Host+": "+p.Reason)
		}
	}
	if len(reasons) == len(found) {
		return Finding{service, state, "not ready: " + strings.Join(reasons, "; "), "mend what it says, or look at the part's log"}
	}
	if len(reasons) > 0 {
		return Finding{service, Warning, fmt.Sprintf("%d of %d are not ready: %s", len(reasons), len(found), strings.Join(reasons, "; ")), "mend what it says, or look at the part's log"}
	}
	return Finding{service, OK, fmt.Sprintf("%d ready", len(found)), ""}
}

func (e *examination) checkEmbedder(context.Context) []Finding {
	var names []string
	for _, p := range Parts(e.parts, "embedworker") {
		if p.Embedder != "" && !slices.Contains(names, p.Embedder) {
			names = append(names, p.Embedder)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return nil // checkParts reports that no worker runs
	case len(names) > 1:
		return []Finding{{"embedder", Warning, "the workers use different ones: " + strings.Join(names, ", "), "install the model on all of them (`unloop model pull`), or start all with --embedder lexical"}}
	case strings.HasPrefix(names[0], "lexical"):
		return []Finding{{"embedder", OK, names[0] + " compares words and knows no synonyms; `unloop model pull` installs a model that does", ""}}
	default:
		return []Finding{{"embedder", OK, names[0], ""}}
	}
}

func (e *examination) checkPolicies(context.Context) (all []Finding) {
	bundles := map[string]*status.Bundle{}
	for _, p := range Parts(e.parts, "gateway") {
		if p.Bundle != nil {
			bundles[p.Bundle.Version] = p.Bundle
		}
	}
	if len(bundles) > 1 {
		all = append(all, Finding{"policies", Warning, "the gateways have different bundles", "gateways with a --policies file follow that alone: push the bundle to all (`unloop policy push`), or give all the same file"})
	}
	for _, b := range bundles {
		all = append(all, bundleFinding(b))
	}
	return all
}

// bundleFinding returns the finding about the policies of one bundle.
func bundleFinding(b *status.Bundle) Finding {
	detail := fmt.Sprintf("bundle %s (%s)", b.Version, b.Source)
	enforced := 0
	for i, p := range b.Policies {
		var names []string
		for _, d := range p.Detectors {
			names = append(names, d.Name)
		}
		if p.Mode == "enforce" && len(names)+len(p.Rules) > 0 {
			enforced++
		}
		if i < 3 {
			detail += fmt.Sprintf("; %s: %s, %s", p.ID, p.Mode, strings.Join(append(names, p.Rules...), ", "))
		}
	}
	if more := len(b.Policies) + b.Omitted - 3; more > 0 {
		detail += fmt.Sprintf("; and %d more", more)
	}
	const mend = "see docs/policies.md; `unloop policy withdraw` puts the default policy into force"
	switch {
	case len(b.Policies) == 0:
		return Finding{"policies", Warning, detail + ": it has no policy, so nothing is checked", mend}
	case enforced == 0:
		return Finding{"policies", Warning, detail + ": loops are reported at the most, and not stopped", mend}
	}
	return Finding{"policies", OK, detail, ""}
}
