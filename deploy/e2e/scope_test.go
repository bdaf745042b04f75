package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// oddIDs are ids that a key or subject made of them by mere joining would
// confuse with each other.
var oddIDs = []string{"a", "b", "a:b", "a*", "*", ">", "a.b", "a b", "a  b", strings.Repeat("x", 1024), strings.Repeat("x", 1023) + "y"}

// meaningIn is the semantic detector alone, by its source's rule.
func meaningIn(t *testing.T, scope string) func(*system.Config) {
	t.Helper()
	return policies(t, strings.Replace(meaning, "min_matches", "scope: "+scope+", min_matches", 1))
}

// Each scope's second text is like its first, and no first like another's.
func TestNothingCrossesBetweenSessionsCallersAndTenants(t *testing.T) {
	t.Parallel()
	keys, sign := issuer(t)
	proven := func(cfg *system.Config) {
		cfg.Gateway.Auth, cfg.Gateway.AuthIssuer = []string{"jwt:" + keys}, "https://id.example"
		cfg.Gateway.AuthAudience, cfg.Gateway.AuthTenantClaim = []string{"unloop"}, "org"
	}
	token := func(subject, tenant string) string {
		tenant = tenant[max(0, len(tenant)-128):] // a token's tenant is no longer
		return sign(map[string]any{"iss": "https://id.example", "sub": subject, "aud": "unloop", "org": tenant, "exp": time.Now().Add(time.Hour).Unix()})
	}
	for name, c := range map[string]struct {
		edits         []func(*system.Config)
		first, second func(id string) call
	}{
		"sessions": {
			edits: []func(*system.Config){meaningIn(t, "session")},
			first: func(id string) call { return prompt(wordings[0]).with("X-Session-ID", id) },
		},
		"callers of one session's name": {
			edits: []func(*system.Config){meaningIn(t, "session")},
			first: func(id string) call {
				return prompt(wordings[0]).with("X-Session-ID", "shared").with("Authorization", "Bearer "+id)
			},
		},
		"callers": {
			edits: []func(*system.Config){meaningIn(t, "caller")},
			first: func(id string) call { return prompt(wordings[0]).with("Authorization", "Bearer "+id) },
		},
		"tenants by their label": {
			edits: []func(*system.Config){meaningIn(t, "tenant")},
			first: func(id string) call { return prompt(wordings[0]).with("X-Tenant-ID", id) },
		},
		"tenants proven by tokens": {
			edits:  []func(*system.Config){meaningIn(t, "tenant"), proven},
			first:  func(id string) call { return prompt(wordings[0]).with("X-Unloop-Key", token("alice", id)) },
			second: func(id string) call { return prompt(wordings[1]).with("X-Unloop-Key", token("bob", id)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, echo(t), c.edits...).URL()
			for _, id := range oddIDs {
				if a := send(t, url, c.first(id)); a.status != 200 || a.header.Get("X-Loop-Action") != "" {
					t.Errorf("first of %.20q: status %d, action %q", id, a.status, a.header.Get("X-Loop-Action"))
				}
			}
			if c.second == nil {
				c.second = c.first
			}
			for _, id := range oddIDs {
				if a := send(t, url, c.second(id)); a.header.Get("X-Loop-Action") != "hint" {
					t.Errorf("second of %.20q: status %d, action %q", id, a.status, a.header.Get("X-Loop-Action"))
				}
			}
		})
	}
}

// A tenant's name without proof is a label: nobody gets at another's history
// by it.
func TestLabelOfATenantOpensNobodysHistory(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), meaningIn(t, "tenant")).URL()
	for _, key := range []string{"one", "two"} {
		if a := send(t, url, prompt(wordings[0]).with("X-Tenant-ID", "acme").with("Authorization", "Bearer "+key)); a.header.Get("X-Loop-Action") != "" {
			t.Errorf("caller %s: action %q", key, a.header.Get("X-Loop-Action"))
		}
	}
}

func TestSixthTextMakesTheFirstForgotten(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, meaning)).URL()
	topics := []string{"volcanoes in Iceland", "bread without yeast", "the rules of cricket", "knots for sailors", "how bees dance"}
	for others, want := range map[int]string{4: "hint", 5: ""} {
		session := fmt.Sprint("after ", others)
		send(t, url, said(0).with("X-Session-ID", session))
		for _, topic := range topics[:others] {
			if a := send(t, url, prompt("Tell me something about "+topic).with("X-Session-ID", session)); a.header.Get("X-Loop-Action") != "" {
				t.Errorf("%s: action %q", topic, a.header.Get("X-Loop-Action"))
			}
		}
		if a := send(t, url, said(0).with("X-Session-ID", session)); a.header.Get("X-Loop-Action") != want {
			t.Errorf("the first again after %d others: action %q, want %q", others, a.header.Get("X-Loop-Action"), want)
		}
	}
}

func TestTextsAreForgottenWhenTheirTimeHasPassed(t *testing.T) {
	t.Parallel()
	var c clock
	url := start(t, echo(t), c.set, policies(t, strings.Replace(meaning, "min_matches", "ttl_seconds: 600, min_matches", 1))).URL()
	for i, step := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {599 * time.Second, "hint"}, {599 * time.Second, "hint"}, {600 * time.Second, ""}, {time.Second, "hint"}} {
		c.advance(step.after)
		if a := send(t, url, said(0)); a.header.Get("X-Loop-Action") != step.want {
			t.Errorf("request %d, %s later: action %q, want %q", i+1, step.after, a.header.Get("X-Loop-Action"), step.want)
		}
	}
}
