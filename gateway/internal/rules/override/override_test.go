package override

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/gateway/internal/wire/descriptor"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/record"
)

var now = time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)

func entries(all ...schemas.Override) Entries {
	e := Entries{}
	for _, o := range all {
		if o.ExpiresAt.IsZero() {
			o.ExpiresAt = now.Add(time.Second)
		}
		e[o.Key()] = o
	}
	return e
}

func rules(t *testing.T, text string) *bundle.Set {
	t.Helper()
	b, err := policy.Parse([]byte("bundle_version: 1\npolicies: []\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := bundle.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const switches = `kill_switches:
  - {scope_key: "header:x-org", scope_value: acme, reason: unpaid}
  - {scope_key: "header:x-org", scope_value: routed, route: /v1/messages}
  - {scope_key: "header:x-org", scope_value: past, expires_at: 2020-01-01T00:00:00Z}
`

func TestDecide(t *testing.T) {
	t.Parallel()
	block := func(scope schemas.OverrideScope, value string) schemas.Override {
		return schemas.Override{Action: schemas.OverrideBlock, Scope: scope, Value: value, Reason: "runaway"}
	}
	exempt := func(scope schemas.OverrideScope, value string) schemas.Override {
		return schemas.Override{Action: schemas.OverrideExempt, Scope: scope, Value: value}
	}
	past := block(schemas.ScopeTenant, "t")
	past.ExpiresAt = now
	blocked := Decision{Operator: record.Blocked, Reason: "runaway"}
	killed := Decision{Operator: record.KillSwitch, Reason: "unpaid"}
	for name, c := range map[string]struct {
		entries   Entries
		rules     string
		org, path string
		also      []string
		want      Decision
	}{
		"nothing set":              {want: Decision{}},
		"a session is blocked":     {entries: entries(block(schemas.ScopeSession, "s")), want: blocked},
		"a session by its name":    {entries: entries(block(schemas.ScopeSession, "job-7")), want: blocked},
		"an exemption by its name": {entries: entries(exempt(schemas.ScopeSession, "job-7")), want: Decision{Operator: record.Exempted, Exempt: "session"}},
		"a caller is blocked":      {entries: entries(block(schemas.ScopeCaller, "c")), want: blocked},
		"a tenant is blocked":      {entries: entries(block(schemas.ScopeTenant, "t")), want: blocked},
		"a project is blocked":     {entries: entries(block(schemas.ScopeProject, "p")), want: blocked},
		"another tenant":           {entries: entries(block(schemas.ScopeTenant, "other")), want: Decision{}},
		"a value of another scope": {entries: entries(block(schemas.ScopeSession, "t")), want: Decision{}},
		"a block that has ended":   {entries: entries(past), want: Decision{}},
		"an exemption":             {entries: entries(exempt(schemas.ScopeProject, "p")), want: Decision{Operator: record.Exempted, Exempt: "project"}},
		"the narrowest exemption": {
			entries: entries(exempt(schemas.ScopeProject, "p"), exempt(schemas.ScopeSession, "s")), want: Decision{Operator: record.Exempted, Exempt: "session"},
		},
		"a block outranks an exemption": {entries: entries(block(schemas.ScopeProject, "p"), exempt(schemas.ScopeSession, "s")), want: blocked},
		"a block outranks a kill switch": {
			entries: entries(block(schemas.ScopeProject, "p")), rules: switches, org: "acme", want: blocked,
		},
		"a kill switch":                         {rules: switches, org: "acme", want: killed},
		"a kill switch outranks an exemption":   {entries: entries(exempt(schemas.ScopeProject, "p")), rules: switches, org: "acme", want: killed},
		"a kill switch of another value":        {rules: switches, org: "globex", want: Decision{}},
		"a kill switch that has ended":          {rules: switches, org: "past", want: Decision{}},
		"a kill switch of another path":         {rules: switches, org: "routed", path: "/v1/chat/completions", want: Decision{}},
		"a kill switch of this path":            {rules: switches, org: "routed", path: "/v1/messages", want: Decision{Operator: record.KillSwitch}},
		"of a path that the upstream reads so":  {rules: switches, org: "routed", path: "/v1/%6dessages", also: []string{"/v1/messages"}, want: Decision{Operator: record.KillSwitch}},
		"without the descriptor":                {rules: switches, want: Decision{}},
		"kill switches that are all turned off": {rules: switches + "kill_switch_override: true\n", org: "acme", want: Decision{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			if c.org != "" {
				r.Header.Set("X-Org", c.org)
			}
			id := &checkpb.Identity{Session: "s", Caller: "c", Tenant: "t", Project: "p"}
			values := descriptor.New(nil, nil, nil, nil).Values(descriptor.Subject{HTTP: r, Identity: id})
			got := Decide(c.entries, rules(t, c.rules), &request.Request{Path: c.path, Target: route.Target{Paths: c.also}}, &request.Subject{Identity: id, SessionName: "job-7", Descriptors: values}, now)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got.Stops() != (c.want.Operator == record.Blocked || c.want.Operator == record.KillSwitch) {
				t.Errorf("stops: %v", got.Stops())
			}
		})
	}
}

func TestARequestOfNobodyFallsUnderNoOverride(t *testing.T) {
	t.Parallel()
	all := entries(schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant})
	if d := Decide(all, rules(t, ""), &request.Request{}, &request.Subject{}, now); d != (Decision{}) {
		t.Errorf("got %+v", d)
	}
}

func TestPutTakesWhatStandsUnderItsOwnKey(t *testing.T) {
	t.Parallel()
	o := schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme & co", ExpiresAt: now}
	value, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key, value string
		fault      string
	}{
		"its own":     {o.Key(), string(value), ""},
		"another key": {"block.tenant.globex", string(value), "belongs under " + o.Key()},
		"no JSON":     {o.Key(), "{", "read override"},
		"no override": {o.Key(), "{}", "belongs under"},
	} {
		got, err := Read(c.key, []byte(c.value))
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
		if err == nil && got.Value != o.Value {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	reason := provider.Header{Name: "X-Loop-Reason", Value: "kill_switch"}
	for name, c := range map[string]struct {
		decision  Decision
		fairvisor bool
		want      provider.Refusal
	}{
		"with a reason": {Decision{Operator: record.Blocked, Reason: "runaway"}, false, provider.Refusal{
			Message: "Stopped by Unloop: an operator has stopped these requests (loop_kill_switch), reason: runaway. See `unloop overrides`, lift with `unloop unblock`.",
			Headers: []provider.Header{{Name: "Retry-After", Value: "1"}, reason},
		}},
		"without one, by the bundle, for Fairvisor's clients": {Decision{Operator: record.KillSwitch}, true, provider.Refusal{
			Message: "Stopped by Unloop: an operator has stopped these requests (loop_kill_switch). See the kill switches in `unloop policy show`.",
			Headers: []provider.Header{{Name: "Retry-After", Value: "1"}, reason, {Name: "X-Fairvisor-Reason", Value: "kill_switch"}},
		}},
	} {
		c.want.Status, c.want.Code = http.StatusForbidden, Code
		got := c.decision.Refusal(http.StatusForbidden, c.fairvisor, provider.Header{Name: "Retry-After", Value: "1"})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHistoryHasEachOverrideWhileItHeld(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return now.Add(time.Duration(minute) * time.Minute) }
	of := func(value string, from, until int) schemas.Override {
		return schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: value, CreatedAt: at(from), ExpiresAt: at(until)}
	}
	h := NewHistory([]schemas.Override{of("a", 0, 10), of("b", 5, 15)})
	for _, c := range []struct {
		minute int
		want   string
	}{{-1, ""}, {0, "a"}, {4, "a"}, {5, "ab"}, {9, "ab"}, {10, "b"}, {15, ""}, {1000, ""}, {2, "a"}} {
		got := ""
		for _, value := range []string{"a", "b"} {
			if _, held := h.At(at(c.minute))[of(value, 0, 0).Key()]; held {
				got += value
			}
		}
		if got != c.want {
			t.Errorf("after %d minutes %q held, want %q", c.minute, got, c.want)
		}
	}
}
