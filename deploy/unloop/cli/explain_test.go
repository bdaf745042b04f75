package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway"
)

const explained = `bundle_version: 5
policies:
  - id: watched
    spec:
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 4, action: throttle}
      prompt: {max_hits: 2}
      semantic: {}
      rules:
        - {name: few, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 9}}
        - {name: org, limit_keys: ["jwt:org"], algorithm: token_bucket, algorithm_config: {rps: 1, burst: 9}}
  - {id: elsewhere, spec: {selector: {tenant: globex}, prompt: {}}}
`

func requestFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const aRequest = `{"path":"/v1/chat/completions","headers":{"Authorization":"Bearer sk-one"},"body":{"model":"m","messages":[{"role":"user","content":"hello"}]}}`

func TestExplainSaysWhatTheBundleSays(t *testing.T) {
	t.Parallel()
	out := succeed(t, "policy", "explain", "--offline", "--policies", write(t, explained), requestFile(t, aRequest))
	for _, want := range []string{
		`bundle +5-[0-9a-f]{8} \(file\)`, `format +openai-chat to upstream openai, model m`, `policy watched \(enforce, fails open\)`,
		`request +threshold 4 in 60 s \(0.0667/s\); fingerprint [0-9a-f]{16}`, `prompt +threshold 2 in 60 s`,
		`semantic +: 2 of the session's last 5 exchanges must be more similar than 0.95`,
		`rule few \(token_bucket\) takes 1`, `rule org \(token_bucket\) is skipped: the request has no jwt:org`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "elsewhere") || strings.Contains(out, "count") {
		t.Errorf("printed:\n%s", out)
	}
	if code, _, errOut := command(t, "policy", "explain", "--offline", requestFile(t, "[]")); code != 1 || !strings.Contains(errOut, "not a request") {
		t.Errorf("no request: %d %s", code, errOut)
	}
}

func TestExplainPeeksAtTheRunningSystem(t *testing.T) {
	t.Parallel()
	url, nats, _ := demo(t)
	request := requestFile(t, aRequest)
	explain := func() gateway.Explanation {
		var e gateway.Explanation
		out := succeed(t, "policy", "explain", "--nats", nats, "--json", "--timeout", "20s", request)
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return e
	}
	if e := explain(); e.Source != "default" || !e.Live || len(e.Policies) != 1 || e.Policies[0].Detectors[0].Count != 1 {
		t.Errorf("with the default policy: %+v", e)
	}
	succeed(t, "policy", "push", "--nats", nats, write(t, explained))
	eventually(t, 9, func() int { // the pushed rule is there
		_, header := postPrompt(t, url, "sk-other")
		limit, _ := strconv.Atoi(header.Get("RateLimit-Limit"))
		return limit
	})
	eventually(t, http.StatusTooManyRequests, func() int { status, _ := postPrompt(t, url, "sk-one"); return status })
	e := explain()
	found := false
	for _, d := range e.Policies[0].Detectors {
		found = found || d.Detector == "prompt" && d.Would == "reject" && d.Count > 2
	}
	if !found || e.Source != "pushed" || e.Policies[0].Rules[0].Remaining >= 9 {
		t.Errorf("after a loop: %+v", e)
	}
	again := explain()
	for i, d := range again.Policies[0].Detectors {
		if d.Count != e.Policies[0].Detectors[i].Count {
			t.Errorf("explaining counts: %+v, then %+v", e.Policies[0].Detectors[i], d)
		}
	}
	succeed(t, "block", "--nats", nats, "--caller", e.Caller, "--for", "1m", "--reason", "enough")
	if e := explain(); !strings.Contains(e.Killed, "enough") {
		t.Errorf("blocked: %+v", e)
	}
}

// The same text of an agent with other tools is another agent's.
func TestExplainTellsMeaningsFromToolCalls(t *testing.T) {
	t.Parallel()
	url, nats, _ := demo(t)
	succeed(t, "policy", "push", "--nats", nats, write(t, "bundle_version: 1\npolicies:\n"+
		"  - {id: both, spec: {tool: {}, semantic: {min_matches: 1, min_words: 1, budget_ms: 20000}}}\n"))
	explain := func(request string) string {
		return succeed(t, "policy", "explain", "--nats", nats, "--timeout", "20s", requestFile(t, request))
	}
	eventually(t, 1, func() int { // the pushed bundle is in force, and the text was sent twice
		_, header := postPrompt(t, url, "sk-one")
		count, _ := strconv.Atoi(header.Get("X-Loop-Count"))
		return count
	})
	withTool := strings.Replace(aRequest, `"model":"m",`, `"model":"m","tools":[{"type":"function","function":{"name":"read"}}],`, 1)
	for request, want := range map[string]string{
		withTool: `tool, cycle +count 0, would allow\n +semantic +count 0, would allow: 1 of the session's last 5 exchanges must be more similar than 0.95`,
		aRequest: `semantic +count 2, would hint: The last 2 messages say`,
	} {
		if out := explain(request); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}
