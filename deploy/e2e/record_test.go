package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/record"
)

// replayed is the report of a recording; each sees it after each entry.
func replayed(t *testing.T, cfg replay.Config, text []byte, each ...func(*replay.Report)) *replay.Report {
	t.Helper()
	cfg.Pace, cfg.Embedworker = time.Second, lexical()
	run, err := replay.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for q, err := range logs.InOrder(logs.Open(bytes.NewReader(text))) {
		if err == nil {
			err = run.Request(t.Context(), "traffic.jsonl", &q)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, look := range each {
			look(run.Report())
		}
	}
	return run.Report()
}

// recorded has a system record, and reads that once the system has stopped.
func recorded(t *testing.T) (edit func(*system.Config), read func(stop func()) []byte) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "traffic.jsonl")
	return func(c *system.Config) { c.Gateway.Record = name }, func(stop func()) []byte {
		stop()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// What a gateway did is what the replay of its recording says it would do.
func TestReplayOfARecordingDecidesAsTheGatewayDid(t *testing.T) {
	t.Parallel()
	file, read := recorded(t)
	s, stop := startStoppable(t, serve(t, greeting).url, file)
	did := map[string]int{}
	note := func(a answered) { did[cmp.Or(a.header.Get("X-Loop-Action"), "allow")]++ }
	for i := range 9 {
		note(send(t, s.URL(), prompt("the same again")))
		note(send(t, s.URL(), prompt(fmt.Sprint("something else ", i))))
		named := chat(toolSession(i, func(int) string { return `{"path":"a.go"}` }, always("package main")))
		note(send(t, s.URL(), named.with("X-Session-Id", "agent 7")))
	}
	text := read(stop)
	if bytes.Contains(text, []byte("sk-")) || bytes.Contains(text, []byte("agent 7")) {
		t.Error("the recording has a key or a session's own name")
	}
	report := replayed(t, replay.Config{}, text)
	if diff := gocmp.Diff(did, report.Actions); diff != "" || did["reject"] == 0 || did["hint"] == 0 {
		t.Errorf("actions (-gateway +replay):\n%s", diff)
	}
	if report.Requests != 27 || report.Saved.Requests != did["reject"] {
		t.Errorf("%d requests; %d would have been stopped", report.Requests, report.Saved.Requests)
	}
}

// billing is an upstream whose answers cost 100 input tokens, 90 of them cached,
// and 7 output tokens, in each format's own words.
func billing(t *testing.T) string {
	t.Helper()
	plain := map[string]string{
		"/v1/chat/completions":             `{"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":90}}}`,
		"/v1/responses":                    `{"id":"r","usage":{"input_tokens":100,"output_tokens":7,"input_tokens_details":{"cached_tokens":90}}}`,
		"/v1/messages":                     `{"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":7}}`,
		"/v1beta/models/m:generateContent": `{"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":90,"candidatesTokenCount":7}}`,
	}
	streamed := map[string]string{
		"/v1/chat/completions": "data: {\"choices\":[]}\n\ndata: " + plain["/v1/chat/completions"] + "\n\ndata: [DONE]\n\n",
		"/v1/responses":        "data: {\"type\":\"response.completed\",\"response\":" + plain["/v1/responses"] + "}\n\n",
		"/v1/messages": "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":90,\"output_tokens\":1}}}\n\n" +
			"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n",
		"/v1beta/models/m:streamGenerateContent": "data: {\"candidates\":[]}\n\ndata: " + plain["/v1beta/models/m:generateContent"] + "\n\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch stream := streamed[r.URL.Path]; {
		case strings.Contains(string(body), "fail"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.Contains(string(body), `"stream":true`) || strings.Contains(r.URL.Path, "stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		default:
			_, _ = io.WriteString(w, plain[r.URL.Path])
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answersOf are the answers in a recording.
func answersOf(t *testing.T, text []byte) (all []record.Answer) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var a record.Answer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		if a.To != "" {
			all = append(all, a)
		}
	}
	return all
}

const prices = `
bundle_version: 1
prices: {"m": {input_usd_per_million: 1000, cached_input_usd_per_million: 100, output_usd_per_million: 2000}}
policies: `

func TestRecordingsKeepWhatAnswersCost(t *testing.T) {
	t.Parallel()
	file, read := recorded(t)
	s, stop := startStoppable(t, billing(t), file, policies(t, prices+"[]"))
	for _, stream := range []bool{false, true} {
		body := fmt.Sprintf(`{"model":"m","max_tokens":9,"stream":%t,"input":"hi","messages":[{"role":"user","content":"hi"}]}`, stream)
		send(t, s.URL(), chat(body))
		for _, path := range []string{"/v1/responses", "/v1/messages"} {
			c := chat(body)
			c.path = path
			send(t, s.URL(), c)
		}
		gemini := chat(`{"contents":[{"parts":[{"text":"hi"}]}]}`)
		gemini.path = map[bool]string{false: "/v1beta/models/m:generateContent", true: "/v1beta/models/m:streamGenerateContent?alt=sse"}[stream]
		send(t, s.URL(), gemini)
	}
	send(t, s.URL(), prompt("fail"))
	text := read(stop)
	answers := answersOf(t, text)
	if len(answers) != 9 {
		t.Fatalf("%d answers, want 9", len(answers))
	}
	for i, a := range answers[:8] {
		got := []any{a.Status, a.InputTokens, a.CachedTokens, a.OutputTokens, a.USD}
		if diff := gocmp.Diff([]any{200, 100, 90, 7, 0.033}, got); diff != "" || a.Time.IsZero() {
			t.Errorf("answer %d (-want +got):\n%s", i, diff)
		}
	}
	if a := answers[8]; a.Status != http.StatusServiceUnavailable || a.OutputTokens != 0 || a.USD != 0 {
		t.Errorf("the answer of a failed call is %+v", a)
	}
	spent := replayed(t, replay.Config{}, text).Spent
	if spent.Requests != 9 || spent.Estimated != 1 || spent.OutputTokens != 8*7 || spent.USD != 8*0.033 || spent.InputTokens < 800 {
		t.Errorf("the replay's spend is %+v", spent)
	}
}

// A loop's saving is what its stopped calls really cost.
func TestAReplaySavesWhatTheAnswersCost(t *testing.T) {
	t.Parallel()
	file, read := recorded(t)
	s, stop := startStoppable(t, billing(t), file, policies(t, `{bundle_version: 1, policies: []}`))
	statuses(t, s.URL(), prompt("again"), 5)
	bundle := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(bundle, []byte(prices+"[{id: p, spec: {prompt: {max_hits: 2, window_seconds: 60}}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := replayed(t, replay.Config{Policies: bundle}, read(stop))
	want := replay.Cost{Requests: 3, InputTokens: 300, OutputTokens: 21, USD: 0.099}
	if diff := gocmp.Diff(want, report.Saved); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if len(report.Incidents) != 1 || report.Incidents[0].Saved != want {
		t.Errorf("incidents %+v", report.Incidents)
	}
}

func TestARequestIsRecordedBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- true
		<-release
	}))
	t.Cleanup(server.Close)
	name := filepath.Join(t.TempDir(), "traffic.jsonl")
	s := start(t, server.URL, func(c *system.Config) { c.Gateway.Record = name })
	done := make(chan error, 1)
	go func() {
		_, err := trySend(s.URL(), prompt("a long job"))
		done <- err
	}()
	<-arrived
	for deadline := time.Now().Add(30 * time.Second); ; {
		text, err := os.ReadFile(name)
		if err == nil && bytes.Contains(text, []byte("a long job")) {
			if spent := replayed(t, replay.Config{}, text).Spent; spent.Requests != 1 || spent.Estimated != 1 {
				t.Errorf("without an answer the spend is %+v", spent)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the recording has %q, %v", text, err)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// override has an operator's override hold, and waits until the gateway follows.
func override(t *testing.T, s *system.System, o schemas.Override, holds func() bool) {
	t.Helper()
	o.CreatedAt, o.ExpiresAt = time.Now(), time.Now().Add(time.Hour)
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(connect(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "$KV."+schemas.BucketOverrides+"."+o.Key(), body); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("override %s does not hold", o.Key())
		}
	}
}

func TestReplayOfARecordingRefusesAndExemptsAsTheGatewayDid(t *testing.T) {
	t.Parallel()
	bundle := policies(t, `
bundle_version: 1
kill_switches: [{scope_key: "header:x-team", scope_value: red, reason: unpaid}]
policies: [{id: p, spec: {prompt: {max_hits: 3, window_seconds: 60}}}]
`)
	var name string
	file, read := recorded(t)
	s, stop := startStoppable(t, serve(t, greeting).url, file, bundle, func(c *system.Config) { name = c.Gateway.Policies })
	did := map[string]int{}
	ask := func(c call) int {
		a := send(t, s.URL(), c)
		action := cmp.Or(a.header.Get("X-Loop-Action"), "allow")
		if a.status == http.StatusForbidden {
			action = "refuse"
		}
		did[action]++
		return a.status
	}
	for range 3 {
		ask(prompt("kill").with("X-Team", "red"))
	}
	blocked := prompt("block").with("X-Tenant-Id", "acme")
	n := 0
	override(t, s, schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme"}, func() bool {
		n++
		return ask(chat(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, n)).with("X-Tenant-Id", "acme")) == http.StatusForbidden
	})
	ask(blocked)
	batch := prompt("batch").with("X-Project-Id", "nightly")
	for ask(batch) != http.StatusTooManyRequests {
	}
	override(t, s, schemas.Override{Action: schemas.OverrideExempt, Scope: schemas.ScopeProject, Value: "nightly"}, func() bool {
		return ask(batch) == http.StatusOK
	})
	statuses(t, s.URL(), batch, 5)
	did["allow"] += 5
	text := read(stop)
	report := replayed(t, replay.Config{Policies: name}, text)
	exempt := report.Actions["exempt"]
	report.Actions["allow"] += exempt
	delete(report.Actions, "exempt")
	if diff := gocmp.Diff(did, report.Actions); diff != "" || did["refuse"] < 5 || exempt != 6 || len(report.Operator) != 3 {
		t.Errorf("%d exempt, actions (-gateway +replay):\n%s", exempt, diff)
	}
	judged := replayed(t, replay.Config{Policies: name, Overrides: []schemas.Override{}}, text)
	if judged.Actions["refuse"] != 3 || judged.Actions["exempt"] != 0 {
		t.Errorf("without overrides %v; want the kill switch's three refusals alone", judged.Actions)
	}
}

// What a gateway did about meanings is what the replay of its recording says.
func TestReplayOfARecordingComparesTextsAsTheWorkersDid(t *testing.T) {
	t.Parallel()
	for name, semantic := range map[string]string{"": "{reject_after: 8, budget_ms: 20000}", "by the source's rule": "{min_matches: 1, reject_after: 8, budget_ms: 20000}"} {
		t.Run(cmp.Or(name, "by default"), func(t *testing.T) {
			t.Parallel()
			var bundle string
			file, read := recorded(t)
			s, stop := startStoppable(t, serve(t, greeting).url, file, policies(t, "bundle_version: 1\npolicies: [{id: p, spec: {prompt: {}, tool: {}, cycle: {}, semantic: "+semantic+"}}]"),
				func(c *system.Config) { bundle = c.Gateway.Policies })
			var live []string
			ask := func(c call) {
				a := send(t, s.URL(), c)
				live = append(live, cmp.Or(a.header.Get("X-Loop-Action"), "allow"))
			}
			text := "Extract the vendor, the currency and the total amount from the attached invoice and return them as one JSON object."
			for i := range 12 {
				ask(prompt(text))
				text = "That wasn't valid JSON. Try again: " + text
				ask(prompt(wordings[i%len(wordings)]).with("X-Session-ID", "s"))
				ask(prompt(fmt.Sprint("An unlike question about number ", i*i, " and ", strings.Repeat("word ", i))).with("X-Session-ID", "other"))
				ask(chat(toolSession(i, func(n int) string { return fmt.Sprintf(`{"path":"%d.go"}`, n) }, always("package main"))).with("X-Session-ID", "tools"))
			}
			got, report := stepwise(t, replay.Config{Policies: bundle}, read(stop))
			if diff := gocmp.Diff(live, got); diff != "" || !slices.Contains(live, "reject") || report.Embedder == "" {
				t.Errorf("actions of %d requests (-gateway +replay):\n%s", len(live), diff)
			}
			if !slices.ContainsFunc(report.Incidents, func(i *replay.Incident) bool {
				return slices.Equal(i.Detectors, []string{"semantic"}) && i.Action == "reject"
			}) {
				t.Errorf("no loop of other words was stopped: %+v", report.Incidents)
			}
		})
	}
}

// stepwise is what a replay does about each request, and its report.
func stepwise(t *testing.T, cfg replay.Config, text []byte) (actions []string, report *replay.Report) {
	t.Helper()
	report = replayed(t, cfg, text, func(r *replay.Report) {
		before := map[string]int{}
		for _, a := range actions {
			before[a]++
		}
		for a, n := range r.Actions {
			if n > before[a] {
				actions = append(actions, a)
			}
		}
	})
	return actions, report
}
