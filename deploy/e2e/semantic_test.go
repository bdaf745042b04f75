package e2e

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
)

// Bundles whose requests wait for their verdicts on a slow machine too.
const (
	// standard is the default policy.
	standard = "bundle_version: 1\npolicies:\n  - {id: default, spec: {selector: {methods: [POST]}, prompt: {}, tool: {}, cycle: {}, semantic: {budget_ms: 20000, reject_after: 8}}}\n"
	// meaning is the semantic detector alone, by its source's rule.
	meaning = "bundle_version: 1\npolicies:\n  - {id: meaning, spec: {semantic: {min_matches: 1, budget_ms: 20000}}}\n"
)

// wordings say one thing in other words.
var wordings = []string{
	"Find out why the login page redirects twice after the password was changed.",
	"After the password was changed the login page redirects twice. Find out why.",
	"Please find out why the login page now redirects twice after the password was changed, okay?",
}

// reworded is a fourth wording, which brings the second finding in a row.
const reworded = "Find out, please, why after the password was changed the login page redirects twice."

func TestAgentSentinelsClientsAreComparedByTheirTenantAlone(t *testing.T) {
	t.Parallel()
	bundle := func(compat string) string {
		return compat + "bundle_version: 1\npolicies:\n  - {id: default, spec: {selector: {methods: [POST]}, semantic: {budget_ms: 20000, reject_after: 0}}}\n"
	}
	for compat, want := range map[string][]string{"": {"", ""}, "compat: [agent-sentinel]\n": {"", "hint"}} {
		url := start(t, echo(t), policies(t, bundle(compat))).URL()
		var got []string
		for i, text := range []string{wordings[0], wordings[1]} {
			c := chat(fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"You are agent %d."},{"role":"user","content":%q}]}`, i, text))
			got = append(got, send(t, url, c.with("X-Tenant-ID", "acme")).header.Get("X-Loop-Action"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", compat, diff)
		}
	}
}

func TestRetryLoopThatGrowsItsPromptIsStopped(t *testing.T) {
	t.Parallel()
	for name, prompts := range map[string]string{
		"long":  "Extract the vendor, the currency and the total amount from the attached invoice and return them as one JSON object.",
		"short": "List five colors as JSON",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, echo(t), policies(t, standard)).URL()
			text, calls := prompts, 0
			var last answered
			for last.status != http.StatusTooManyRequests && calls < 20 {
				last = send(t, url, prompt(text))
				text = "That wasn't valid JSON. Try again: " + text
				calls++
			}
			if last.status != http.StatusTooManyRequests || calls > 12 {
				t.Fatalf("after %d calls: status %d, want the twelfth stopped at the latest", calls, last.status)
			}
			r := last.refusal(t)
			if r.Detail.Detector != "semantic" || r.Detail.HitCount != 8 || r.Detail.LoopID == "" || last.header.Get("Retry-After") != "" || !strings.Contains(r.Error.Message, "recursive_loop_detected") {
				t.Errorf("refusal %+v, Retry-After %q; want the eighth finding in a row, and nothing to wait for", r, last.header.Get("Retry-After"))
			}
		})
	}
}

func TestSameQuestionInOtherWordsIsHinted(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way func(*system.Config)) {
		upstream := serve(t, greeting)
		s := start(t, upstream.url, policies(t, standard), way)
		var got []string
		for _, text := range append(wordings, reworded, "Translate the whole handbook into French, please.") {
			a := send(t, s.URL(), prompt(text).with("X-Session-ID", "s"))
			got = append(got, fmt.Sprint(a.status, " ", a.header.Get("X-Loop-Action"), " ", a.header.Get("X-Loop-Detector")))
		}
		if diff := cmp.Diff([]string{"200  ", "200  ", "200  ", "200 hint semantic", "200  "}, got); diff != "" {
			t.Errorf("by wording (-want +got):\n%s", diff)
		}
		hinted := upstream.Requests()[3].Chat.Messages
		if len(hinted) != 2 || hinted[0].Role != "system" || !strings.Contains(hinted[0].Text(), "in other words") {
			t.Errorf("the upstream got %+v; want a hint before the prompt", hinted)
		}
	})
}

func TestOneMatchIsEnoughWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, meaning)).URL()
	for i, want := range []string{"", "hint"} {
		if a := send(t, url, prompt(wordings[0])); a.header.Get("X-Loop-Action") != want {
			t.Errorf("request %d: action %q, want %q", i+1, a.header.Get("X-Loop-Action"), want)
		}
	}
}

// judged is how many texts were judged, whatever the verdict.
func judged(t *testing.T, s *system.System) float64 {
	t.Helper()
	return metric(t, s, `unloop_detector_semantic_checks_total{result="clear"}`) + metric(t, s, `unloop_detector_semantic_checks_total{result="detected"}`)
}

func TestOnlyWhatPassesIsEmbedded(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - {id: both, spec: {loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2}, semantic: {budget_ms: 20000}}}
`))
	if diff := cmp.Diff([]int{200, 429, 429, 429}, statuses(t, s.URL(), prompt(wordings[0]), 4)); diff != "" {
		t.Fatal(diff)
	}
	if n := judged(t, s); n != 1 {
		t.Errorf("%v texts were judged, want that of the request that passed", n)
	}
	send(t, s.URL(), call{http.MethodPost, "/v1/embeddings", `{"model":"m","input":"four words of text"}`, nil})
	send(t, s.URL(), chat(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/cat.png"}}]}]}`))
	if n := judged(t, s); n != 1 {
		t.Errorf("%v texts were judged, want none of what is no text or no prompt", n)
	}
}

func TestRequestThatARuleDeniesIsNotEmbedded(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - id: ruled
    spec:
      rules: [{name: once, limit_keys: ["header:x-agent"], algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 1}}]
      semantic: {budget_ms: 20000}
`))
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if a := send(t, s.URL(), prompt(wordings[i]).with("X-Agent", "a")); a.status != want {
			t.Fatalf("request %d: status %d, want %d", i+1, a.status, want)
		}
	}
	if n := judged(t, s); n != 1 {
		t.Errorf("%v texts were judged, want that of the request that passed", n)
	}
}

func TestDeferredVerdictAppliesToTheNextRequest(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), policies(t, strings.Replace(meaning, "min_matches", "deferred: true, min_matches", 1)))
	send(t, s.URL(), prompt(wordings[0]).with("X-Session-ID", "s"))
	awaitMetric(t, s, `unloop_detector_semantic_checks_total{result="clear"}`, func(n float64) bool { return n == 1 })
	if a := send(t, s.URL(), prompt(wordings[1]).with("X-Session-ID", "s")); a.header.Get("X-Loop-Action") != "" {
		t.Errorf("second request: action %q, want it not to wait", a.header.Get("X-Loop-Action"))
	}
	awaitMetric(t, s, `unloop_detector_semantic_checks_total{result="late"}`, func(n float64) bool { return n == 1 })
	// The verdict is stored a moment after it was given.
	deadline := time.Now().Add(time.Minute)
	for n := 3; ; n++ {
		a := send(t, s.URL(), prompt("Something else is asked by now, number "+fmt.Sprint(n)).with("X-Session-ID", "s"))
		if a.header.Get("X-Loop-Action") == "hint" && a.header.Get("X-Loop-Detector") == "semantic" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the verdict never applied")
		}
	}
}

// Agents of one key that were recorded at honest work say nothing twice.
func TestHonestSessionsOfOneCallerSayNothingTwice(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t), policies(t, standard))
	for name, messages := range trajectories(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, message := range messages {
				if roleOf(message) != "assistant" {
					continue
				}
				body, err := json.Marshal(map[string]any{"model": "m", "messages": messages[:i]})
				if err != nil {
					t.Fatal(err)
				}
				if a := send(t, s.URL(), chat(string(body))); a.header.Get("X-Loop-Detector") == "semantic" {
					t.Errorf("request before message %d: %s", i, a.header.Get("X-Loop-Action"))
				}
			}
		})
	}
}

// startWorker runs an embedding worker until the test ends or stop is called.
func startWorker(t *testing.T, server *natstest.Server) (stop func()) {
	t.Helper()
	w, err := embedworker.New(lexical(), service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), NATS: server.Service(), Layout: server.Layout(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return runStoppable(t, w)
}

func TestWithoutAWorkerRequestsPassAndDetectionComesBack(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	startDetector(t, server)
	url := startGateway(t, server.Conn(), &lines{}, echo(t), policies(t, meaning), func(cfg *system.Config) { cfg.Gateway.CheckTimeout = checkTimeout })
	ask := func() answered { return send(t, url, prompt(wordings[0])) }
	for range 3 {
		if a := ask(); a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" || a.header.Get("X-Loop-Degraded") != "semantic" {
			t.Fatalf("without a worker: status %d, %v", a.status, a.header)
		}
	}
	for range 2 { // started, ended, and started again
		stop := startWorker(t, server)
		deadline := time.Now().Add(time.Minute)
		for ask().header.Get("X-Loop-Action") != "hint" {
			if time.Now().After(deadline) {
				t.Fatal("a worker that started is not asked")
			}
		}
		stop()
		if a := ask(); a.status != http.StatusOK || a.header.Get("X-Loop-Degraded") != "semantic" {
			t.Errorf("after its end: status %d, degraded %q", a.status, a.header.Get("X-Loop-Degraded"))
		}
	}
}
