package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// identical is a bundle that rejects from the second identical request on.
func identical(version int) string {
	return fmt.Sprintf(`bundle_version: %d
policies:
  - id: identical
    spec:
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2, action: reject}
`, version)
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckNamesEveryFaultWithItsLine(t *testing.T) {
	t.Parallel()
	file := write(t, `bundle_version: 1
policies:
  - id: a
    spec:
      mod: shadow
      loop_detection: {enabled: true, window_seconds: 0, threshold_identical_requests: 1, action: block}
`)
	code, out, errOut := command(t, "policy", "check", file)
	if code != 1 || !strings.Contains(errOut, "1 of 1 bundles are not valid") {
		t.Errorf("exit code %d, %q", code, errOut)
	}
	for _, want := range []string{
		file + ":5: ", file + ":6: ", "threshold_identical_requests must be >= 2", "action must be one of reject, throttle, warn", "window_seconds must be a positive integer",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if code, out, _ := command(t, "policy", "check", write(t, identical(3))); code != 0 || !strings.Contains(out, "valid; version 3-") {
		t.Errorf("a good bundle: exit code %d, %q", code, out)
	}
	if code, out, _ := command(t, "policy", "check", write(t, identical(3)+"expires_at: 2020-01-01T00:00:00Z\n")); code != 1 || !strings.Contains(out, "expired") {
		t.Errorf("an expired bundle: exit code %d, %q", code, out)
	}
}

// succeed runs a command that must succeed and returns what it printed.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := command(t, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, errOut)
	}
	return out + errOut
}

// eventually asks until an answer has the status.
func eventually(t *testing.T, status int, ask func() int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	got := 0
	for time.Now().Before(deadline) {
		if got = ask(); got == status {
			return
		}
	}
	t.Fatalf("status stays %d, want %d", got, status)
}

// fetch sends a GET, which the default policy does not watch.
func fetch(t *testing.T, gateway, tenant string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Tenant-Id", tenant)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

func TestPushedBundlesAreFollowedListedAndRolledBack(t *testing.T) {
	t.Parallel()
	gateway, nats, _ := demo(t)
	ask := func() int { return fetch(t, gateway, "") }
	for range 3 {
		if got := ask(); got == http.StatusTooManyRequests {
			t.Fatal("the default policy counts a GET")
		}
	}
	if code, _, errOut := command(t, "policy", "show", "--nats", nats); code != 1 || !strings.Contains(errOut, "no bundle is pushed") {
		t.Errorf("show without a bundle: %d %s", code, errOut)
	}
	if out := succeed(t, "policy", "push", "--nats", nats, write(t, identical(7))); !strings.Contains(out, "Pushed version 7-") {
		t.Errorf("push printed %q", out)
	}
	eventually(t, http.StatusTooManyRequests, ask)
	if out := succeed(t, "policy", "show", "--nats", nats); !strings.Contains(out, identical(7)) || !strings.Contains(out, "# version 7-") {
		t.Errorf("show printed %q", out)
	}
	if code, _, errOut := command(t, "policy", "rollback", "--nats", nats); code != 1 || !strings.Contains(errOut, "no other bundle") {
		t.Errorf("rollback of the only bundle: %d %s", code, errOut)
	}
	if code, _, errOut := command(t, "policy", "push", "--nats", nats, write(t, "bundle_version: 8\n")); code != 1 || !strings.Contains(errOut, "policies is required") {
		t.Errorf("push of a bad bundle: %d %s", code, errOut)
	}
	succeed(t, "policy", "push", "--nats", nats, write(t, "bundle_version: 8\npolicies: []\n"))
	eventually(t, http.StatusOK, ask)
	succeed(t, "policy", "rollback", "--nats", nats)
	eventually(t, http.StatusTooManyRequests, ask)
	succeed(t, "policy", "withdraw", "--nats", nats)
	eventually(t, http.StatusOK, ask)
	out := succeed(t, "policy", "history", "--nats", nats)
	var versions []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		versions = append(versions, strings.Fields(line)[1][:2])
	}
	if got := strings.Join(versions, " "); got != "wi 7- 8- 7-" {
		t.Errorf("history, newest first: %s\n%s", got, out)
	}
	oldest := strings.Fields(strings.Split(strings.TrimSpace(out), "\n")[2])[0]
	succeed(t, "policy", "rollback", "--nats", nats, oldest)
	eventually(t, http.StatusTooManyRequests, ask)
}

func TestBlockAndExemptTakeEffectAndEnd(t *testing.T) {
	t.Parallel()
	gateway, nats, _ := demo(t)
	ask := func() int { return fetch(t, gateway, "acme & co") }
	succeed(t, "block", "--nats", nats, "--tenant", "acme & co", "--for", "10m", "--reason", "runaway")
	eventually(t, http.StatusForbidden, ask)
	if got := fetch(t, gateway, "globex"); got != http.StatusOK {
		t.Errorf("another tenant got %d", got)
	}
	if out := succeed(t, "overrides", "--nats", nats); !strings.Contains(out, "acme & co") || !strings.Contains(out, "runaway") {
		t.Errorf("overrides printed %q", out)
	}
	file := filepath.Join(t.TempDir(), "overrides.json")
	if err := os.WriteFile(file, []byte(succeed(t, "overrides", "--json", "--nats", nats)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "replay", "--overrides", file, recordingOf(t, 2)); !strings.Contains(out, "allow 2") {
		t.Errorf("a replay with the overrides that were listed: %q", out)
	}
	succeed(t, "unblock", "--nats", nats, "--tenant", "acme & co")
	eventually(t, http.StatusOK, ask)
	if out := succeed(t, "overrides", "--nats", nats); !strings.Contains(out, "Nothing is blocked") {
		t.Errorf("overrides printed %q", out)
	}
	succeed(t, "policy", "push", "--nats", nats, write(t, identical(2)))
	eventually(t, http.StatusTooManyRequests, ask)
	succeed(t, "exempt", "--nats", nats, "--tenant", "acme & co", "--for", "1h")
	eventually(t, http.StatusOK, ask)
	succeed(t, "unexempt", "--nats", nats, "--tenant", "acme & co")
	eventually(t, http.StatusTooManyRequests, ask)
}

func TestOverridesSayWhoseRequestsAndHowLong(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"block", "--for", "10m"}, {"block", "--tenant", "a"}, {"exempt", "--tenant", "a", "--for", "0s"}, {"unblock"}, {"block", "--tenant", "", "--for", "1m"},
	} {
		if code, _, errOut := command(t, args...); code == 0 || errOut == "" {
			t.Errorf("%q: exit code %d, %q", args, code, errOut)
		}
	}
}

// postPrompt sends the request that explanations are about.
func postPrompt(t *testing.T, gateway, key string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header
}

func TestCommandsKnowThePoliciesOfAGatewayThatFollowsAFile(t *testing.T) {
	t.Parallel()
	natsAddr, listen, admin := natstest.FreeAddr(t), natstest.FreeAddr(t), natstest.FreeAddr(t)
	file := write(t, `bundle_version: 3
policies:
  - {id: acme, spec: {selector: {tenant: acme, headers: {X-Team: "re*"}}, prompt: {max_hits: 3}, tool: {}}}
  - {id: messages, spec: {selector: {pathExact: /v1/messages, models: "claude-*"}, prompt: {max_hits: 4}, tool: {}}}
  - {id: of-one, spec: {selector: {caller: "00112233445566778899aabbccddeeff"}, prompt: {}}}
`)
	out, _ := background(t, "up", "--policies", file, "--data-dir", "memory", "--listen", listen, "--admin", admin, "--nats-listen", natsAddr)
	out.await(t, "run an agent through it")
	nats := "nats://" + natsAddr
	code, stdout, stderr := command(t, "policy", "push", "--nats", nats, write(t, identical(7)))
	if code != 0 || !strings.Contains(stdout, "Pushed version 7-") || !strings.Contains(stderr, "the gateway at "+listen+" follows its --policies file and does not use pushed bundles") {
		t.Errorf("push: code %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = command(t, "policy", "explain", "--nats", nats, requestFile(t, aRequest))
	if code != 0 || !strings.Contains(stderr, "this explains bundle 7-") || !strings.Contains(stderr, "uses bundle 3-") {
		t.Errorf("explain: code %d, %s%s", code, stdout, stderr)
	}
	if _, _, stderr = command(t, "policy", "explain", "--nats", nats, "--policies", file, requestFile(t, aRequest)); strings.Contains(stderr, "this explains") {
		t.Errorf("explain with the file: %s", stderr)
	}
	doctor := []string{"doctor", "--nats", nats, "--gateway", "http://" + listen, "--admin", "http://" + admin, "--upstreams", "none"}
	_, stdout, _ = command(t, doctor...)
	for _, want := range []string{
		"policy acme: yes: the same prompt is stopped at number 4 (policy acme", "policy acme: yes: the same tool call",
		"policy messages: yes: the same prompt is stopped at number 5 (policy messages", "policy of-one: not tried: it selects by caller",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("doctor without a tenant says no %q:\n%s", want, stdout)
		}
	}
	if _, stdout, _ := command(t, append(doctor, "--tenant", "other")...); !strings.Contains(stdout, "no: the same prompt passes") || !strings.Contains(stdout, "--tenant, --project or --header") {
		t.Errorf("doctor of another tenant:\n%s", stdout)
	}
	if _, stdout, _ := command(t, append(doctor, "--tenant", "acme", "--header", "X-Team=red")...); !strings.Contains(stdout, "yes: the same prompt is stopped") {
		t.Errorf("doctor of the tenant:\n%s", stdout)
	}
}

func TestBundlesToBeginWithAreValid(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"init"}, {"init", "teams"}, {"init", "budgets"}, {"default"}} {
		bundle := succeed(t, append([]string{"policy"}, args...)...)
		if out := succeed(t, "policy", "check", write(t, bundle)); !strings.Contains(out, ": valid; version 1-") || strings.Contains(out, "warning") {
			t.Errorf("policy %v: %s", args, out)
		}
	}
	if code, _, errOut := command(t, "policy", "init", "none"); code != 1 || !strings.Contains(errOut, "there are quiet, teams, budgets") {
		t.Errorf("an unknown bundle: code %d, %s", code, errOut)
	}
	if out := succeed(t, "policy", "schema"); !strings.Contains(out, "\"bundle_version\"") {
		t.Errorf("schema: %s", out)
	}
}

func TestPathsWithoutPromptsAreWarnedOf(t *testing.T) {
	t.Parallel()
	for spec, warned := range map[string]bool{
		"{selector: {pathExact: /v1/chat/complitions}, prompt: {}, tool: {}}":                                                          true,
		"{selector: {pathExact: [/v1/embeddings, /v1/models]}, tool: {}}":                                                              true,
		"{selector: {pathExact: [/v1/embeddings, /v1/messages]}, tool: {}}":                                                            false,
		"{selector: {pathExact: /azure/openai/deployments/x/chat/completions}, prompt: {}}":                                            false,
		"{selector: {pathExact: /tools/search}, loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 5}}": false,
		"{selector: {pathPrefix: /v1}, prompt: {}}":                                                                                    false,
	} {
		out := succeed(t, "policy", "check", write(t, "bundle_version: 1\npolicies: [{id: p, spec: "+spec+"}]\n"))
		if strings.Contains(out, "selector.pathExact: the policy watches nothing: no wire format has prompts at") != warned {
			t.Errorf("%s: %s", spec, out)
		}
	}
}
