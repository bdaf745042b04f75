package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/storepb"
)

// check is a call of the check API by the same caller as chat's.
func check(body string) call {
	c := chat(body)
	c.path = "/unloop/v1/check"
	return c
}

// about is the check of a whole request.
func about(c call, more string) call {
	asked := check(fmt.Sprintf(`{"path":%q,"body":%s%s}`, c.path, c.body, more))
	asked.header = c.header
	return asked
}

// decide sends a check and reads its decision.
func decide(t testing.TB, url string, c call) client.Decision {
	t.Helper()
	a := send(t, url, c)
	var d client.Decision
	if err := json.Unmarshal(a.body, &d); err != nil || a.status != http.StatusOK {
		t.Fatalf("check: status %d, %s", a.status, a.body)
	}
	return d
}

func TestCheckCountsAsItsRequestWould(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for n := 1; n <= 5; n++ {
		if d := decide(t, url, about(prompt("again"), "")); d.Action != "allow" || d.HitCount != n || len(d.Findings) != 0 {
			t.Fatalf("check %d: %+v", n, d)
		}
	}
	sixth := check(`{"prompt":"again","model":"m"}`)
	d := decide(t, url, sixth)
	if a := send(t, url, sixth); a.header.Get("X-Loop-Action") != "reject" || a.header.Get("Retry-After") != "" || a.header.Get("X-Should-Retry") != "" {
		t.Errorf("a check that rejects its request is no refusal itself: %v", a.header)
	}
	if len(d.Findings) != 1 || len(d.Findings[0].Fingerprint) != 64 || !truly(d.RetryAfterSeconds) || d.LoopID == "" || d.RequestID == "" || !strings.Contains(d.Message, "recursive_loop_detected") {
		t.Fatalf("sixth: %+v", d)
	}
	want := client.Decision{
		Action: "reject", Reason: "loop_detected", HitCount: 6, RetryAfterSeconds: d.RetryAfterSeconds, Message: d.Message, LoopID: d.LoopID, RequestID: d.RequestID,
		Findings: []client.Finding{{
			Policy: "default", Detector: "prompt", Action: "reject", Fingerprint: d.Findings[0].Fingerprint, HitCount: 6,
			Threshold: 5, WindowSeconds: 60, CooldownSeconds: 30, LoopID: d.LoopID, Message: "The same prompt came 6 times within 60 seconds.",
		}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("sixth (-want +got):\n%s", diff)
	}
	if a := send(t, url, prompt("again")); a.status != http.StatusTooManyRequests || a.refusal(t).Detail.Fingerprint != d.Findings[0].Fingerprint {
		t.Errorf("the request itself: status %d, %s", a.status, a.body)
	}
}

func TestRequestSeenByCheckAndGatewayCountsOnce(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	for name, tag := range map[string]func(asked, sent call) (call, func(client.Decision) call){
		"by the check's id": func(asked, sent call) (call, func(client.Decision) call) {
			return asked, func(d client.Decision) call { return sent.with("X-Unloop-Check", d.RequestID) }
		},
		"by an id of the client's own": func(asked, sent call) (call, func(client.Decision) call) {
			return asked.with("X-Request-ID", "own"), func(client.Decision) call { return sent.with("X-Request-ID", "own") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := prompt("again").with("Authorization", "Bearer "+name)
			asked, send1 := tag(about(sent, ""), sent)
			for n := 1; n <= 5; n++ {
				d := decide(t, s.URL(), asked)
				if a := send(t, s.URL(), send1(d)); d.HitCount != n || a.status != http.StatusOK {
					t.Fatalf("call %d: count %d, then status %d", n, d.HitCount, a.status)
				}
			}
			if d := decide(t, s.URL(), asked); d.Action != "reject" || d.HitCount != 6 {
				t.Errorf("sixth call: %+v", d)
			}
		})
	}
}

func TestOneCheckCoversOneRequest(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	d := decide(t, url, about(prompt("again"), ""))
	tagged := prompt("again").with("X-Unloop-Check", d.RequestID)
	if diff := cmp.Diff(ok(5, 429), statuses(t, url, tagged, 6)); diff != "" {
		t.Errorf("a request that bears one check's id for ever (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ok(5, 429), statuses(t, url, prompt("same trace").with("X-Request-ID", "trace"), 6)); diff != "" {
		t.Errorf("one X-Request-ID on all requests, without a check (-want +got):\n%s", diff)
	}
}

func TestCheckHeaderStaysAtTheGateway(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	url := start(t, upstream.url).URL()
	send(t, url, prompt("hello").with("X-Unloop-Check", "id"))
	if got := upstream.Requests(); len(got) != 1 || got[0].Header.Get("X-Unloop-Check") != "" {
		t.Errorf("the upstream saw %+v", got)
	}
}

func TestPeekSaysWhatWouldHappenAndCountsNothing(t *testing.T) {
	t.Parallel()
	s := start(t, echo(t))
	peek := about(prompt("again"), `,"peek":true`)
	statuses(t, s.URL(), prompt("again"), 4)
	for range 3 {
		if d := decide(t, s.URL(), peek); d.Action != "allow" || d.HitCount != 5 {
			t.Fatalf("peek before the fifth: %+v", d)
		}
	}
	send(t, s.URL(), prompt("again"))
	if d := decide(t, s.URL(), peek); d.Action != "reject" || d.HitCount != 6 || d.LoopID != "" {
		t.Fatalf("peek before the sixth: %+v; want what it would get, and no incident", d)
	}
	if a := send(t, s.URL(), prompt("again")); a.refusal(t).Detail.HitCount != 6 {
		t.Fatalf("sixth: %s", a.body)
	}
	if d := decide(t, s.URL(), peek); d.Action != "reject" || d.HitCount != 6 || d.LoopID == "" {
		t.Errorf("peek at a standing block: %+v", d)
	}
}

func TestCheckTellsCallersSessionsAndToolsApart(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - id: tools
    spec:
      selector: {pathPrefix: /tools/}
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2, action: reject}
      rules: [{name: by-tool, limit_keys: ["header:x-tool-name"], algorithm: token_bucket, algorithm_config: {rps: 1000, burst: 1000}}]
  - id: chats
    spec: {selector: {pathExact: /v1/chat/completions}, prompt: {max_hits: 1, scope: session}}
`)).URL()
	tool := check(`{"path":"/tools/run","body":{"arg":1}}`).with("X-Tool-Name", "ls")
	question := check(`{"prompt":"p","session":"one","model":"m"}`)
	decide(t, url, tool)
	decide(t, url, question)
	for name, c := range map[string]struct {
		call call
		want string
	}{
		"another tool":        {tool.with("X-Tool-Name", "cat"), "allow"},
		"another path":        {check(`{"path":"/tools/other","body":{"arg":1}}`).with("X-Tool-Name", "ls"), "allow"},
		"other arguments":     {check(`{"path":"/tools/run","body":{"arg":2}}`).with("X-Tool-Name", "ls"), "allow"},
		"the same call":       {check(`{"body":{"arg": 1.0},"path":"/tools/run","method":"POST"}`).with("X-Tool-Name", "ls"), "reject"},
		"another session":     {check(`{"prompt":"p","session":"two","model":"m"}`), "allow"},
		"another caller":      {question.with("Authorization", "Bearer sk-two"), "allow"},
		"another user":        {check(`{"prompt":"p","session":"one","model":"m","user":"u"}`), "allow"},
		"the same session":    {check(`{"messages":[{"role":"user","content":"p"}],"session":"one","model":"m"}`), "reject"},
		"the session's name":  {check(`{"prompt":"p","model":"m","peek":true}`).with("X-Session-ID", "one"), "reject"},
		"no policy has a say": {check(`{"path":"/elsewhere","method":"GET"}`), "allow"},
	} {
		if d := decide(t, url, c.call); d.Action != c.want || d.RequestID == "" {
			t.Errorf("%s: %+v, want %s", name, d, c.want)
		}
	}
}

func TestCheckReadsEveryFormatAsTheGatewayDoes(t *testing.T) {
	t.Parallel()
	toEcho := func(cfg *system.Config) {
		for _, name := range []string{"anthropic", "gemini"} {
			cfg.Gateway.Upstream[name] = cfg.Gateway.Upstream["openai"]
		}
	}
	url := start(t, echo(t), toEcho, policies(t, `
bundle_version: 1
policies: [{id: p, spec: {selector: {pathPrefix: /}, prompt: {max_hits: 1}}}]
`)).URL()
	for name, c := range map[string]struct {
		call  call
		check string
	}{
		"Chat Completions": {
			call{http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"p"}]}`, http.Header{"Authorization": {"Bearer k1"}}},
			`{"format":"openai-chat","body":%s}`,
		},
		"Responses": {
			call{http.MethodPost, "/v1/responses", `{"model":"m","input":"p"}`, http.Header{"Authorization": {"Bearer k2"}}},
			`{"format":"openai-responses","body":%s}`,
		},
		"Messages": {
			call{http.MethodPost, "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"p"}]}`, http.Header{"X-Api-Key": {"k3"}}},
			`{"format":"anthropic-messages","body":%s}`,
		},
		"Gemini": {
			call{http.MethodPost, "/v1beta/models/m:generateContent?key=k4", `{"contents":[{"role":"user","parts":[{"text":"p"}]}]}`, http.Header{}},
			`{"path":"/v1beta/models/m:generateContent?key=k4","body":%s}`,
		},
	} {
		asked := call{http.MethodPost, "/unloop/v1/check", fmt.Sprintf(c.check, c.call.body), c.call.header}
		if d := decide(t, url, asked); d.Action != "allow" || d.HitCount != 1 {
			t.Errorf("%s: %+v", name, d)
		}
		if a := send(t, url, c.call); a.status != http.StatusTooManyRequests {
			t.Errorf("%s: the request after its check: status %d, %s; want it to be the second", name, a.status, a.body)
		}
	}
}

func TestFindingsOfACheckBeginWithTheOneThatDecides(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - {id: a-shadow, spec: {selector: {pathPrefix: /}, mode: shadow, prompt: {max_hits: 1}}}
  - {id: b-warn, spec: {selector: {pathPrefix: /}, prompt: {max_hits: 1, action: warn}}}
  - {id: c-throttle, spec: {selector: {pathPrefix: /}, loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2, action: throttle}}}
`)).URL()
	decide(t, url, about(prompt("again"), ""))
	d := decide(t, url, about(prompt("again"), ""))
	var order []string
	for _, f := range d.Findings {
		order = append(order, f.Policy+" "+f.Action)
	}
	if diff := cmp.Diff([]string{"c-throttle throttle", "b-warn warn", "a-shadow reject"}, order); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if d.Action != "throttle" || d.DelayMS != 200 || d.RetryAfterSeconds != 0 {
		t.Errorf("decision %+v, want a delay of 200 ms", d)
	}
}

func TestCheckThatNoDetectorAnswersFollowsTheFailureMode(t *testing.T) {
	t.Parallel()
	bundle := `
bundle_version: 1
policies:
  - {id: open, spec: {selector: {pathExact: /v1/chat/completions}, prompt: {max_hits: 1}}}
  - {id: closed, spec: {selector: {pathExact: /closed/chat/completions}, failure_mode: closed, prompt: {max_hits: 1}}}
`
	silent := natstest.Start(t)
	if _, err := silent.Conn().Subscribe(schemas.SubjectCheck, func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	url := startGateway(t, silent.Conn(), &lines{}, echo(t), policies(t, bundle))
	// A process that lacks processors for long says that it is overloaded, and is asked again.
	ask := func(c call) (d client.Decision) {
		t.Helper()
		a := send(t, url, about(c, ""))
		for deadline := time.Now().Add(backWithin); a.status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
			a = send(t, url, about(c, ""))
		}
		if err := json.Unmarshal(a.body, &d); err != nil || a.status != http.StatusOK {
			t.Fatalf("check: status %d, %s", a.status, a.body)
		}
		return d
	}
	if d := ask(prompt("p")); d.Action != "allow" || d.Degraded != "timeout" {
		t.Errorf("failure mode open: %+v", d)
	}
	closed := prompt("p")
	closed.path = "/closed/chat/completions"
	if d := ask(closed); d.Action != "reject" || d.Reason != "unchecked" || d.Degraded != "timeout" || d.Message == "" {
		t.Errorf("failure mode closed: %+v", d)
	}
}

func TestBadChecksAreExplained(t *testing.T) {
	t.Parallel()
	small := func(cfg *system.Config) { cfg.Gateway.MaxInspectBytes = 1000 }
	url := start(t, echo(t), small).URL()
	large := `{"prompt":"` + strings.Repeat("x", 2000) + `"}`
	huge := `{"prompt":"` + strings.Repeat("x", 100_000) + `"}`
	for name, c := range map[string]struct {
		call   call
		status int
		field  string
	}{
		"unknown field":  {check(`{"prompt":"p","tools":[]}`), http.StatusBadRequest, "tools"},
		"no JSON":        {check(`prompt=p`), http.StatusBadRequest, ""},
		"large body":     {check(large), http.StatusRequestEntityTooLarge, "body"},
		"huge check":     {check(huge), http.StatusRequestEntityTooLarge, "body"},
		"another method": {call{http.MethodGet, "/unloop/v1/check", "", nil}, http.StatusMethodNotAllowed, ""},
		"another path":   {call{http.MethodGet, "/unloop/v1/else", "", nil}, http.StatusNotFound, ""},
	} {
		a := send(t, url, c.call)
		var r struct {
			Error struct{ Code, Field, Message string }
		}
		if err := json.Unmarshal(a.body, &r); err != nil || a.status != c.status || r.Error.Field != c.field || r.Error.Code == "" || r.Error.Message == "" {
			t.Errorf("%s: status %d, %s", name, a.status, a.body)
		}
	}
}

func TestGatewaySaysWhatItIs(t *testing.T) {
	t.Parallel()
	const want = `{"product":"unloop","ready":true,"service":"gateway"}`
	s, a := start(t, echo(t)), answered{}
	// A gateway that lacks a processor for seconds is not ready meanwhile.
	for deadline := time.Now().Add(time.Minute); string(a.body) != want && time.Now().Before(deadline); {
		a = send(t, s.URL(), call{http.MethodGet, "/unloop/v1/ping", "", nil})
	}
	if a.status != http.StatusOK || string(a.body) != want {
		t.Errorf("status %d, %s; want %s", a.status, a.body, want)
	}
}

// A call that is checked first, fails upstream and is sent again counts once.
func TestCheckedReplayOfAFailedCallCountsOnce(t *testing.T) {
	t.Parallel()
	upstream := serve(t, func(scripted.Request) scripted.Reply {
		return scripted.Error(http.StatusServiceUnavailable, "overloaded", "try again")
	})
	s := start(t, upstream.url)
	asked := about(prompt("again"), "")
	awaitCounter := watchBucket(t, s, schemas.BucketCounters)
	d := decide(t, s.URL(), asked)
	send(t, s.URL(), prompt("again").with("X-Unloop-Check", d.RequestID))
	awaitCounter(`"excused":true`)
	d = decide(t, s.URL(), asked)
	if a := send(t, s.URL(), prompt("again").with("X-Unloop-Check", d.RequestID)); d.HitCount != 1 || a.status != http.StatusServiceUnavailable {
		t.Errorf("replay: count %d, status %d; want 1", d.HitCount, a.status)
	}
}

// watchBucket follows a bucket's records from now on; what it returns waits
// for one that contains a text.
func watchBucket(t *testing.T, s *system.System, bucket string) (await func(text string)) {
	t.Helper()
	nc := connect(t, s)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := kv.WatchAll(t.Context(), jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) {
		t.Helper()
		for timeout := time.After(backWithin); ; {
			select {
			case entry := <-watch.Updates():
				if entry != nil && strings.Contains(recordText(bucket, entry), text) {
					return
				}
			case <-timeout:
				t.Fatalf("no record with %s was stored", text)
			}
		}
	}
}

// recordText returns the JSON of a stored message, without spaces.
func recordText(bucket string, entry jetstream.KeyValueEntry) string {
	m := storepb.Of(bucket, entry.Key())
	if m == nil || proto.Unmarshal(entry.Value(), m) != nil {
		return string(entry.Value())
	}
	return strings.ReplaceAll(protojson.Format(m), " ", "")
}

// truly reports whether the seconds to wait are those until the first of six prompts,
// sent at most ten seconds ago, leaves the window, and up to a tenth more.
func truly(wait int) bool { return wait >= 50 && wait <= 66 }
