package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/silence"
)

// audited returns the audit's entries as ACTION TARGET by ACTOR.
func audited(t *testing.T, nats string) []string {
	t.Helper()
	code, out, errOut := command(t, "audit", "--json", "--nats", nats)
	if code != 0 {
		t.Fatalf("audit: code %d, %s", code, errOut)
	}
	var all []string
	for line := range strings.Lines(out) {
		var a schemas.Audit
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.At.IsZero() || a.Via != "cli" {
			t.Errorf("%v: %s", err, line)
		}
		all = append(all, string(a.Action)+" "+a.Target+" by "+a.Actor)
	}
	return all
}

func TestSilencesAreAddedListedAndExpired(t *testing.T) {
	t.Parallel()
	nats := natstest.Start(t).URL()
	if code, out, errOut := command(t, "silences", "--nats", nats); code != 0 || out != "Nothing is silenced.\n" {
		t.Fatalf("silences: code %d, %s%s", code, out, errOut)
	}
	code, out, errOut := command(t, "silences", "add", "tenant=acme", "severity=warning", "severity=info", "--for", "2h", "-c", "deploying", "--as", "ops", "--json", "--nats", nats)
	var s silence.Silence
	if err := json.Unmarshal([]byte(out), &s); code != 0 || err != nil || s.Author != "ops" || len(s.Matchers["severity"]) != 2 {
		t.Fatalf("silences add: code %d, %v, %s%s", code, err, out, errOut)
	}
	if code, out, _ = command(t, "silences", "--nats", nats); code != 0 || !strings.Contains(out, s.ID) || !strings.Contains(out, "severity=warning|info tenant=acme") {
		t.Errorf("silences: code %d\n%s", code, out)
	}
	if code, out, _ = command(t, "silences", "expire", s.ID, "--as", "ops", "--nats", nats); code != 0 || !strings.Contains(out, "No longer silenced") {
		t.Errorf("silences expire: code %d\n%s", code, out)
	}
	if code, _, errOut = command(t, "silences", "expire", s.ID, "--nats", nats); code != 1 || !strings.Contains(errOut, "no silence has this id") {
		t.Errorf("silences expire, again: code %d\n%s", code, errOut)
	}
	if got := strings.Join(audited(t, nats), "\n"); got != "silence "+s.ID+" by ops\nunsilence "+s.ID+" by ops" {
		t.Errorf("audited:\n%s", got)
	}
}

func TestFaultySilencesAreRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"is not a field of events": {"tenan=acme", "--for", "1h"},
		"FIELD=PATTERN":            {"acme", "--for", "1h"},
		"at least 1s":              {"tenant=acme", "--for", "1ms"},
		"--for":                    {"tenant=acme"},
	} {
		if code, _, errOut := command(t, append([]string{"silences", "add"}, args...)...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: code %d, %s; want %q", args, code, errOut, want)
		}
	}
}

func TestBlocksAreAudited(t *testing.T) {
	t.Parallel()
	nats := natstest.Start(t).URL()
	for _, args := range [][]string{
		{"block", "--tenant", "acme", "--for", "1h", "--reason", "spends too much"}, {"unblock", "--tenant", "acme"},
		{"exempt", "--project", "p", "--for", "1h"}, {"unexempt", "--project", "p"},
	} {
		if code, _, errOut := command(t, append(args, "--as", "ops@desk", "--nats", nats)...); code != 0 {
			t.Fatalf("%v: code %d, %s", args, code, errOut)
		}
	}
	want := "block tenant acme by ops@desk\nunblock tenant acme by ops@desk\nexempt project p by ops@desk\nunexempt project p by ops@desk"
	if got := strings.Join(audited(t, nats), "\n"); got != want {
		t.Errorf("audited:\n%s", got)
	}
	if code, out, _ := command(t, "audit", "-n", "1", "--nats", nats); code != 0 || strings.Contains(out, "tenant acme") || !strings.Contains(out, "project p") {
		t.Errorf("audit -n 1: code %d\n%s", code, out)
	}
}

func TestFilesOfEndpointsAreChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.yaml", "endpoints: [{name: hooks, webhook: {url: https://example.com/}}]\n")
	code, out, errOut := command(t, "notify", "check", good)
	if code != 0 || !strings.Contains(out, "valid; 1 endpoint") || !strings.Contains(out, "hooks (webhook), 1 route") {
		t.Errorf("good: code %d, %s%s", code, out, errOut)
	}
	bad := write("bad.yaml", "endpoints:\n  - name: hooks\n    webhok: {}\n  - name: hooks\n    slack: {url: {env: UNLOOP_TEST_NO_SUCH_VARIABLE}}\n")
	code, out, errOut = command(t, "notify", "check", bad)
	for _, want := range []string{bad + ":3: endpoints[0].webhok: unknown key", "is empty or not set", `the name "hooks" is used`} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("bad: code %d, %s%s; want %q", code, out, errOut, want)
		}
	}
	if code, out, _ = command(t, "notify", "schema"); code != 0 || !strings.Contains(out, "group_wait") {
		t.Errorf("schema: code %d, %s", code, out)
	}
}
