package chart

import (
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
)

// TestNetworkPoliciesAllowExactlyWhatIsNeeded lists every port of every policy: egress by number, "to"
// marking those with peers.
func TestNetworkPoliciesAllowExactlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	const dns = "53/UDP 53/TCP"
	want := map[string]map[string]allowed{
		"defaults": {
			release + "-unloop-gateway":     {in: []string{"http/TCP", "admin/TCP"}, out: []string{dns, "4222/TCP", "443/TCP to 2"}},
			release + "-unloop-detector":    {in: []string{"admin/TCP"}, out: []string{dns, "4222/TCP"}},
			release + "-unloop-embedworker": {in: []string{"admin/TCP"}, out: []string{dns, "4222/TCP"}},
			release + "-unloop-notifier":    {in: []string{"admin/TCP", "admin/TCP"}, out: []string{dns, "4222/TCP", "443/TCP to 2"}},
		},
		"everything": {
			release + "-unloop-gateway": {
				in:  []string{"http/TCP from 1", "beside/TCP from 1", "admin/TCP from 1"},
				out: []string{dns + " to 1", "4222/TCP to 1", "4318/TCP to 1", "443/TCP 8000/TCP 8443/TCP to 2", "9000/TCP to 1"},
			},
			release + "-unloop-detector":    {in: []string{"admin/TCP from 1"}, out: []string{dns + " to 1", "4222/TCP to 1", "4318/TCP to 1"}},
			release + "-unloop-embedworker": {in: []string{"admin/TCP from 1"}, out: []string{dns + " to 1", "4222/TCP to 1", "4318/TCP to 1", "6379/TCP to 1"}},
			release + "-unloop-notifier": {
				in:  []string{"admin/TCP from 1", "admin/TCP from 1"},
				out: []string{dns + " to 1", "4222/TCP to 1", "4318/TCP to 1", "443/TCP 587/TCP to 2"},
			},
		},
		"nkey": {release + "-unloop-detector": {in: []string{"admin/TCP"}, out: []string{dns, "4222/TCP"}}},
		"password": {release + "-unloop-notifier": {
			in: []string{"admin/TCP", "admin/TCP"}, out: []string{dns, "4222/TCP", "443/TCP 8443/TCP to 2"},
		}},
		"minimal": {},
	}
	all := cases(t)
	for name, policies := range want {
		rendered := render(t, all[name]).networkPolicies
		if (len(policies) == 0) != (len(rendered) == 0) {
			t.Errorf("%s: %d policies", name, len(rendered))
		}
		for policy, expected := range policies {
			if got := allows(rendered[policy]); !slices.Equal(got.in, expected.in) || !slices.Equal(got.out, expected.out) {
				t.Errorf("%s: %s allows\n%q, want\n%q", name, policy, got, expected)
			}
			if types := rendered[policy].Spec.PolicyTypes; len(types) != 2 {
				t.Errorf("%s: %s is about %v alone", name, policy, types)
			}
		}
	}
}

// allowed are the rules of a policy, as text.
type allowed struct{ in, out []string }

func allows(policy *networkingv1.NetworkPolicy) (found allowed) {
	for _, rule := range policy.Spec.Ingress {
		found.in = append(found.in, describe(rule.Ports, "from", len(rule.From)))
	}
	for _, rule := range policy.Spec.Egress {
		found.out = append(found.out, describe(rule.Ports, "to", len(rule.To)))
	}
	return found
}

func describe(ports []networkingv1.NetworkPolicyPort, word string, peers int) string {
	var texts []string
	for _, port := range ports {
		texts = append(texts, fmt.Sprintf("%s/%s", port.Port.String(), *port.Protocol))
	}
	if peers > 0 {
		texts = append(texts, fmt.Sprintf("%s %d", word, peers))
	}
	return join(texts)
}
