package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/audit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/silences"
	"github.com/unloop/unloop/schemas/match"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/silence"
)

// stateBundle has a policy for each kind of state, by paths.
const stateBundle = `
bundle_version: 1
policies:
  - id: chats
    spec:
      selector: {pathPrefix: /v1/chat/}
      prompt: {}
      tool: {}
      cycle: {}
      semantic: {min_matches: 1, budget_ms: 20000, reject_after: 2}
      rules:
        - {name: burst, limit_keys: ["header:x-org"], algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 2}}
        - {name: week, limit_keys: ["header:x-team"], algorithm: cost_based, algorithm_config: {budget: 100, period: 7d, cost_key: "header:x-cost", staged_actions: [{threshold_percent: 100, action: reject}]}}
  - {id: watched, spec: {selector: {pathPrefix: /v1/chat/}, mode: shadow, prompt: {}}}
  - {id: requests, spec: {selector: {pathPrefix: /v1/completions}, loop_detection: {enabled: true, window_seconds: 45, threshold_identical_requests: 4, action: reject}}}
  - {id: answers, spec: {selector: {pathPrefix: /v1/responses}, tool: {}}}
  - id: spending
    spec:
      selector: {pathPrefix: /v1/embeddings}
      circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 10}
      rules:
        - {name: cost, limit_keys: ["header:x-org"], algorithm: token_bucket, algorithm_config: {rps: 0.1, burst: 1000, cost_source: "header:x-cost"}}
`

// kept is one thing that outlives an upgrade: what clients do before it, and what they see
// behind it.
type kept struct {
	name string
	// before and after return a line for each request.
	before, after func(t *testing.T, url string) []string
	was, want     []string
}

// results are a line for each call: its status and what is said about it.
func results(calls ...call) func(*testing.T, string) []string {
	return func(t *testing.T, url string) (all []string) {
		t.Helper()
		for _, c := range calls {
			a := send(t, url, c)
			all = append(all, strings.TrimSpace(fmt.Sprint(a.status, " ", a.header.Get("X-Loop-Action"))))
		}
		return all
	}
}

func lines200(n int, rest ...string) []string {
	return append(slices.Repeat([]string{"200"}, n), rest...)
}

// statesKept are what outlives an upgrade. Requests have fixed ids.
func statesKept() []kept {
	completion := call{http.MethodPost, "/v1/completions", `{"model":"m","prompt":"once upon a time"}`, prompt("").header}
	embedding := call{http.MethodPost, "/v1/embeddings", `{"model":"m","input":"x"}`, prompt("").header}.with("X-Org", "acme")
	org := func(i int) call { return prompt(fmt.Sprint("limited ", i)).with("X-Org", "acme") }
	team := func(i int) call {
		return prompt(fmt.Sprint("paid ", i)).with("X-Team", "red").with("X-Cost", "60")
	}
	turns := session("You are a coder.", "Fix it.", many(6, func(int) []string { return []string{turn([]string{`read {"path":"a"}`}, "same")} }))
	answer := func(n int) call { return delta(n, "package a", byAnswer(n), false) }
	keyed := func(key string) call { return prompt("retried before").with("Idempotency-Key", key) }
	asked := check(`{"path":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"asked before"}]}}`).with("X-Request-ID", "r1").with("Authorization", "Bearer sk-one")
	sent := prompt("asked before")
	alike := func(i int) call { return prompt(wordings[i]).with("X-Session-ID", "s") }
	return []kept{
		{"a standing block", results(slices.Repeat([]call{prompt("blocked before")}, 6)...), results(prompt("blocked before")), lines200(5, "429 reject"), []string{"429 reject"}},
		{"a count", results(slices.Repeat([]call{prompt("counted before")}, 3)...), results(slices.Repeat([]call{prompt("counted before")}, 3)...), lines200(3), lines200(2, "429 reject")},
		{"retries", results(keyed("a"), keyed("a"), keyed("b"), keyed("b")), results(keyed("b"), keyed("c"), keyed("d"), keyed("e"), keyed("f")), lines200(4), lines200(4, "429 reject")},
		{"a decision that was asked for", results(sent, sent, sent, sent, asked), results(sent.with("X-Request-ID", "r1"), sent), lines200(5), lines200(1, "429 reject")},
		{"a refreshed window", results(slices.Repeat([]call{completion}, 2)...), results(completion, completion), lines200(2), lines200(1, "429 reject")},
		{"an agent's calls", results(turns[:4]...), results(turns[4], turns[5]), lines200(3, "200 hint"), []string{"200 hint", "429 reject"}},
		{"calls that the provider has", results(answer(0), answer(1), answer(2), answer(3)), results(answer(4), answer(5)), lines200(3, "200 hint"), []string{"200 hint", "429 reject"}},
		{"texts and findings in a row", results(alike(0), alike(1)), results(alike(2)), lines200(1, "200 hint"), []string{"429 reject"}},
		{"an empty bucket", results(org(1), org(2), org(3)), results(org(4)), lines200(2, "429"), []string{"429"}},
		{"a budget", results(team(1), team(2)), results(team(3)), lines200(1, "429"), []string{"429"}},
		{"an open breaker", results(embedding.with("X-Cost", "6"), embedding.with("X-Cost", "7")), results(embedding.with("X-Cost", "1")), lines200(1, "429"), []string{"429"}},
	}
}

// stateUpstream answers for the provider: in its n-th answer of the Responses API it asks
// for the same call.
func stateUpstream(t *testing.T, answered int) string {
	t.Helper()
	k := &keeping{arguments: func(int) string { return `{"path":"a.go"}` }, sent: make([][]byte, answered)}
	mux := http.NewServeMux()
	mux.Handle("/v1/responses", k)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// driveBefore does what is to outlive an upgrade.
func driveBefore(t *testing.T, url string) {
	t.Helper()
	for _, k := range statesKept() {
		if diff := cmp.Diff(k.was, k.before(t, url)); diff != "" {
			t.Errorf("%s, before (-want +got):\n%s", k.name, diff)
		}
	}
}

func wantAfter(t *testing.T, url string) {
	t.Helper()
	for _, k := range statesKept() {
		if diff := cmp.Diff(k.want, k.after(t, url)); diff != "" {
			t.Errorf("%s does not outlive the upgrade (-want +got):\n%s", k.name, diff)
		}
	}
}

// stateHour is the time of the clock while the state is written. It stands still.
var stateHour = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// on runs a system on a server at a time.
func on(server *natstest.Server, at time.Time) func(*system.Config) {
	return func(cfg *system.Config) {
		cfg.NATS, cfg.Clock = server.URL(), func() time.Time { return at }
	}
}

// writeState has this version write all kinds of state, and returns them as they are
// stored when it has ended.
func writeState(t *testing.T) []stored {
	t.Helper()
	server := natstest.Start(t)
	js := server.JetStream()
	publish(t, js, stored{Subject: "$KV." + schemas.BucketPolicies + "." + schemas.KeyCallerHash, Bytes: []byte(strings.Repeat("k", 32))})
	publish(t, js, stored{Subject: "$KV." + schemas.BucketPolicies + "." + schemas.KeyBundle, Text: stateBundle})
	s, stop := startStoppable(t, stateUpstream(t, 0), on(server, stateHour), toEndpoints(t, refusing(t, http.StatusServiceUnavailable), refusing(t, http.StatusGone)))
	driveBefore(t, s.URL())
	operateAt(t, js, stateHour)
	awaitDeliveries(t, js)
	stop()
	return dump(t, server)
}

// toEndpoints has messages sent to two endpoints.
func toEndpoints(t *testing.T, busy, gone string) func(*system.Config) {
	t.Helper()
	_, edit := notify(t, fmt.Sprintf(`
allow_cidr: [127.0.0.0/8]
endpoints:
  - {name: busy, webhook: {url: %q}, throttle: {messages: 1000, per: 1h}}
  - {name: gone, webhook: {url: %q}}
routes:
  - {endpoints: [busy, gone], match: {policy: spending}}
`, busy, gone), nil)
	return edit
}

// refusing is an endpoint that answers each message with a status.
func refusing(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.URL
}

// awaitDeliveries waits until messages are to be sent again, and others were given up.
func awaitDeliveries(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	seen := map[delivery.Status]bool{}
	for deadline := time.Now().Add(patience); !seen[delivery.Retrying] || !seen[delivery.Dead]; {
		if time.Now().After(deadline) {
			t.Fatalf("deliveries are %v", seen)
		}
		for _, r := range deliveries(t, js) {
			seen[r.Status] = true
		}
	}
}

// deliveries reads the delivery log.
func deliveries(t *testing.T, js jetstream.JetStream) (all []delivery.Record) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), schemas.BucketDeliveries)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		t.Fatal(err)
	}
	for _, key := range keys {
		var r delivery.Record
		if entry, err := kv.Get(t.Context(), key); err == nil && json.Unmarshal(entry.Value(), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}

// wantDelivered waits for a message that was owed before the upgrade, and looks for one
// that was given up.
func wantDelivered(t *testing.T, js jetstream.JetStream, busy inbox) {
	t.Helper()
	if e, err := event.Parse([]byte(busy.next(t))); err != nil || e.Data.LoopID == "" {
		t.Errorf("delivered is %+v, %v", e, err)
	}
	stream, err := js.Stream(t.Context(), schemas.StreamDeadLetters)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), schemas.DeadLetterSubject("gone"))
	if err != nil {
		t.Fatal(err)
	}
	var dead delivery.Record
	if err := json.Unmarshal(msg.Data, &dead); err != nil || dead.Status != delivery.Dead || dead.Endpoint != "gone" || dead.Tried == 0 || len(dead.Events) == 0 || dead.Reason == "" {
		t.Errorf("the dead letter is %s, %v", msg.Data, err)
	}
	kv, err := js.KeyValue(t.Context(), schemas.BucketNotifications)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Get(t.Context(), schemas.EndpointKey("gone")); err != nil {
		t.Errorf("the endpoint that is gone: %v", err)
	}
}

// operateAt does what operators do.
func operateAt(t *testing.T, js jetstream.JetStream, now time.Time) {
	t.Helper()
	block := schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeTenant, Value: "acme", Reason: "unpaid", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	text, err := json.Marshal(block)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, js, stored{Subject: "$KV." + schemas.BucketOverrides + "." + block.Key(), Text: string(text)})
	matchers, err := match.Parse([]string{"tenant=acme", "policy=!ch*"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := silences.Add(t.Context(), js, silence.Silence{Matchers: matchers, Author: "ada", Comment: "known", Start: now, End: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := audit.Record(t.Context(), js, schemas.Audit{Actor: "ada", Action: schemas.AuditBlock, Target: "tenant acme", Detail: "unpaid", Via: "cli"}); err != nil {
		t.Fatal(err)
	}
}

// What every version has written is read by this one: clients see behind the upgrade what
// they would have seen without it.
func TestStateOfEveryVersionIsContinued(t *testing.T) {
	t.Parallel()
	for _, name := range stateFiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := readState(t, name)
			server := natstest.Start(t)
			js := server.JetStream()
			if _, err := js.CreateStream(t.Context(), server.Layout().Vectors()); err != nil {
				t.Fatal(err)
			}
			for _, m := range state.Messages {
				publish(t, js, m)
			}
			at := state.At.Add(time.Second)
			busy := newInbox(t)
			s := start(t, stateUpstream(t, 4), on(server, at), toEndpoints(t, busy.url, refusing(t, http.StatusGone)))
			wantOpenLoops(t, state)
			wantAfter(t, s.URL())
			wantReleased(t, s, state)
			wantEvents(t, state)
			wantOperators(t, s.URL(), js)
			wantDelivered(t, js, busy)
		})
	}
}

// wantOpenLoops reads the incidents as the command line does.
func wantOpenLoops(t *testing.T, state golden) {
	t.Helper()
	found := map[string]bool{}
	for _, m := range state.Messages {
		if !strings.HasPrefix(m.Subject, "$KV."+schemas.BucketIncidents+".live.") {
			continue
		}
		var loop openloop.Record
		if err := loop.Parse(m.data()); err != nil || loop.LoopID == "" || loop.FirstSeen.IsZero() || loop.Ends.Before(state.At) || len(loop.Findings) == 0 {
			t.Errorf("open loop %s, %v", m.data(), err)
		}
		for i := range loop.Findings {
			found[loop.Policy+" "+loop.Findings[i].Detector] = true
		}
	}
	for _, want := range []string{"chats prompt", "chats tool", "chats semantic", "answers tool", "spending circuit_breaker"} {
		if !found[want] {
			t.Errorf("no open loop of %s among %v", want, found)
		}
	}
}

// wantReleased releases a loop of before the upgrade.
func wantReleased(t *testing.T, s *system.System, state golden) {
	t.Helper()
	id := ""
	for _, m := range state.Messages {
		var loop openloop.Record
		if strings.HasPrefix(m.Subject, "$KV."+schemas.BucketIncidents+".live.chats.") && loop.Parse(m.data()) == nil && loop.HitCount == 6 && loop.Findings[0].Detector == "prompt" {
			id = loop.LoopID
		}
	}
	if _, err := operator.Release(t.Context(), connect(t, s), id); err != nil {
		t.Fatalf("release %q: %v", id, err)
	}
	for deadline := time.Now().Add(patience); send(t, s.URL(), prompt("blocked before")).status != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("a released loop is still refused")
		}
	}
}

func wantEvents(t *testing.T, state golden) {
	t.Helper()
	n := 0
	for _, m := range state.Messages {
		if !strings.HasPrefix(m.Subject, "loop.detected.") {
			continue
		}
		if e, err := event.Parse(m.data()); err != nil || e.Type != event.Detected || e.Data.LoopID == "" || e.Data.Policy == "" {
			t.Errorf("event %s, %v", m.data(), err)
		}
		n++
	}
	if n < 5 {
		t.Errorf("%d events", n)
	}
}

// wantOperators looks for what operateAt did.
func wantOperators(t *testing.T, url string, js jetstream.JetStream) {
	t.Helper()
	if a := send(t, url, prompt("anything").with("X-Tenant-ID", "acme")); a.status != http.StatusForbidden {
		t.Errorf("a blocked tenant gets %d", a.status)
	}
	kv, err := js.KeyValue(t.Context(), schemas.BucketSilences)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("silences %v, %v", keys, err)
	}
	entry, err := kv.Get(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	var s silence.Silence
	if err := json.Unmarshal(entry.Value(), &s); err != nil || s.ID != keys[0] || s.Author != "ada" || s.Comment != "known" || s.Matchers.String() != "policy=!ch* tenant=acme" {
		t.Errorf("the silence is %+v (%s), %v", s, s.Matchers, err)
	}
	all, err := audit.List(t.Context(), js, 10)
	if err != nil || len(all) != 1 || all[0].Actor != "ada" || all[0].Action != schemas.AuditBlock || all[0].Detail != "unpaid" || all[0].At.IsZero() {
		t.Errorf("the audit is %+v, %v", all, err)
	}
}
