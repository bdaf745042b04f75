package endpoints

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/policy"
)

func TestRoutesAndTheirDefaults(t *testing.T) {
	t.Parallel()
	const file = `
endpoints:
  - {name: hooks, webhook: {url: https://example.com/}, throttle: {messages: 10, per: 1m}}
  - {name: chat, slack: {url: {file: url}}, throttle: {messages: 100, per: 1s}}
  - {name: alerts, alertmanager: {url: "http://192.0.2.1:9093", refresh: 30s}}
routes:
  - {name: quiet, endpoints: [chat], match: {severity: critical, tenant: [acme*, "!acme-test"]}, group_by: [policy], repeat_interval: 4h}
  - {endpoints: [hooks, alerts], events: [detected, ongoing, resolved], group_by: [tenant], group_wait: 0s, group_interval: 1m}
`
	all, err := Load([]byte(file), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, environment(nil, map[string]string{"url": " https://hooks.slack.com/x\n"}))
	if err != nil {
		t.Fatal(err)
	}
	defer Close(all)
	if len(all) != 3 || all[0].Signed || !all[1].Signed {
		t.Fatalf("built %+v", all)
	}
	every := []event.Type{event.Detected, event.Ongoing, event.Resolved}
	name := all[0].Routes[0].Name
	diff(t, all[0].Routes, []routing.Route{{Name: name, Match: match.Matchers{}, Events: every, GroupBy: []string{"tenant"}, GroupInterval: time.Minute}})
	diff(t, all[1].Routes, []routing.Route{{
		Name: "quiet", Match: match.Matchers{"severity": {"critical"}, "tenant": {"acme*", "!acme-test"}}, GroupBy: []string{"policy"},
		GroupWait: 30 * time.Second, GroupInterval: 5 * time.Minute, RepeatInterval: 4 * time.Hour,
	}})
	diff(t, all[2].Routes[0].RepeatInterval, 30*time.Second)
	diff(t, all[0].Throttle, routing.Throttle{Messages: 10, Per: time.Minute})
	diff(t, all[1].Throttle, routing.Throttle{Messages: 1, Per: time.Second}) // Slack's own is lower
}

// Each fault is found with its line, all of them at once.
func TestFaultsOfFiles(t *testing.T) {
	t.Parallel()
	const file = `endpoints:
  - name: "a b"
    webhook: {url: "ftp://example.com"}
  - name: hooks
    webhook: {url: "http://127.0.0.1/s3cretpath", secrets: [{env: PLAIN}, {}]}
  - name: hooks
    slack: {url: {env: NONE}}
    discord: {url: {file: url}}
  - name: mail
    email: {server: "smtp.example.com:x", from: nobody, to: [], username: u, security: ssl}
  - name: pd
    pagerduty: {routing_key: {env: NONE, file: key}}
  - name: text
    webhook: {url: https://example.com, template: "{{.Nope}}", content: x}
  - name: parse
    teams: {url: {env: URL}, template: "{{if}}"}
  - name: lonely
    alertmanager: {url: https://example.com, refresh: 10ms, labels: {a-b: c}, password: {env: PLAIN}}
routes:
  - endpoints: [hooks, nobody, mail, pd, text, parse, "a b"]
    match: {tenan: acme}
    group_by: [colour]
    group_wait: -1s
    events: [gone]
`
	env := map[string]string{"PLAIN": "s3cret", "URL": "https://example.com/"}
	_, err := Load([]byte(file), nil, environment(env, nil))
	got := map[int]string{}
	for _, f := range Faults(err) {
		got[f.Line] += f.String() + "\n"
	}
	for line, wants := range map[int][]string{
		2:  {"must not be empty or contain spaces"},
		3:  {"no URL of an HTTP endpoint"},
		5:  {"private address 127.0.0.1", "begin with whsec_", "{env: NAME} or {file: PATH}"},
		6:  {"is used by", "exactly one of"},
		10: {"HOST:PORT", "Unloop <unloop@example.com>", "password is missing", "must be one of starttls, tls, none"},
		12: {"both set"},
		14: {"fails with an example", `unknown key "content"`},
		16: {"is no Go template"},
		17: {"no route names"},
		18: {"at least 1s", "letters, digits and _", "username is missing"},
		20: {`no endpoint has the name "nobody"`},
		21: {"is not a field of events"},
		22: {"must be one of tenant"},
		23: {"must be from 0s"},
		24: {"must be one of detected"},
	} {
		for _, want := range wants {
			if !strings.Contains(got[line], want) {
				t.Errorf("line %d: got %q, want %q", line, got[line], want)
			}
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a secret is in %v", err)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "the file is empty",
		"[]":                     "must be a mapping",
		"{}":                     "endpoints is required",
		"endpoints: []":          "at least one endpoint",
		"endpoints: [":           "not well-formed",
		"endpoints: [{name: x}]": "exactly one of",
	} {
		_, err := Load([]byte(text), nil, environment(nil, nil))
		var faults *policy.Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
