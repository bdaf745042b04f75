package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

func TestSixthPromptIsRefusedWithATypedError(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, way func(*system.Config)) {
		var stopped clock
		url := start(t, echo(t), way, stopped.set).URL()
		if diff := cmp.Diff(ok(5), statuses(t, url, prompt("again"), 5)); diff != "" {
			t.Fatalf("first five (-want +got):\n%s", diff)
		}
		a := send(t, url, prompt("again"))
		r := a.refusal(t)
		if a.status != http.StatusTooManyRequests || r.Error.Code != "recursive_loop_detected" || !strings.Contains(r.Error.Message, "recursive_loop_detected") {
			t.Fatalf("sixth: status %d, error %+v", a.status, r.Error)
		}
		d, inner := r.Detail, r.Error.Detail
		if inner.Message = d.Message; d != inner {
			t.Errorf("detail beside and inside the error differ:\n%s", cmp.Diff(d, inner))
		}
		if len(d.Fingerprint) != 64 || d.LoopID == "" || d.Message != r.Error.Message || r.Error.Detail.Message != "" {
			t.Errorf("detail %+v", d)
		}
		d.Fingerprint, d.LoopID, d.Message = "", "", ""
		want := detail{Error: "recursive_loop_detected", Detector: "prompt", Policy: "default", HitCount: 6, WindowSeconds: 60, CooldownSeconds: 30}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("detail (-want +got):\n%s", diff)
		}
		if got := seconds(t, a); got < 60 || got > 66 {
			t.Errorf("Retry-After %d, want 60 and up to a tenth: the window outlasts the cooldown", got)
		}
	})
}

func TestCooldownIsServedFromMemoryThenTheWindowDecides(t *testing.T) {
	t.Parallel()
	var c clock
	s := start(t, echo(t), c.set)
	statuses(t, s.URL(), prompt("again"), 6)
	before := metric(t, s, `unloop_gateway_checks_total{result="decided"}`)
	if diff := cmp.Diff([]int{429, 429, 429}, statuses(t, s.URL(), prompt("again"), 3)); diff != "" {
		t.Fatalf("during the cooldown (-want +got):\n%s", diff)
	}
	if after := metric(t, s, `unloop_gateway_checks_total{result="decided"}`); after != before {
		t.Errorf("%v checks during the cooldown, want none", after-before)
	}
	c.advance(10 * time.Second)
	if got := seconds(t, send(t, s.URL(), prompt("again"))); got < 50 || got > 55 {
		t.Errorf("Retry-After %d ten seconds later, want 50 and up to a tenth", got)
	}
	c.advance(2 * time.Minute)
	if a := send(t, s.URL(), prompt("again")); a.status != http.StatusOK {
		t.Errorf("after cooldown and window: status %d", a.status)
	}
}

func TestWhatMakesAPromptTheSame(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - {id: strict, spec: {selector: {pathExact: /v1/chat/completions}, prompt: {max_hits: 1}}}
  - {id: text, spec: {selector: {pathExact: /openai/v1/chat/completions}, prompt: {max_hits: 1, fingerprint: text}}}
`)).URL()
	user := func(name, content string) string {
		return fmt.Sprintf(`{"model":"%s","messages":[{"role":"user","content":%s}]}`, name, content)
	}
	history := func(first, system string) string {
		return `{"model":"h","messages":[{"role":"system","content":` + system + `},{"role":"user","content":` + first +
			`},{"role":"assistant","content":"a"},{"role":"user","content":"b"}]}`
	}
	long := func(model, middle string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"go"},{"role":"assistant","content":"` + middle +
			`"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
	}
	toolTurn := func(model, args, result string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":` +
			args + `}}]},{"role":"tool","tool_call_id":"c1","content":"` + result + `"}]}`
	}
	clockPrompt := func(at string) string {
		return `{"model":"clock","messages":[{"role":"system","content":"You are helpful. Now: ` + at + `."},{"role":"user","content":"go"}]}`
	}
	image := func(model, url string) string {
		return user(model, `[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"`+url+`"}}]`)
	}
	for name, c := range map[string]struct {
		first, second string
		strict, text  bool
	}{
		"case and outer space":       {user("a", `"  Hello World "`), user("a", `"hello world\n"`), true, true},
		"inner space":                {user("b", `"a b"`), user("b", `"a  \u200b\n b"`), true, true},
		"model":                      {user("c", `"x"`), user("c2", `"x"`), false, false},
		"earlier history":            {history(`"one"`, `"s"`), history(`"two"`, `"s"`), false, false},
		"how it began":               {history(`"one"`, `"s1"`), history(`"one"`, `"s2"`), false, false},
		"between start and end":      {long("x", "one"), long("x", "two"), true, true},
		"text parts joined":          {user("d", `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), user("d", `"a b"`), true, true},
		"images":                     {image("e", "http://x/1"), image("e", "http://x/2"), false, false},
		"tool arguments":             {toolTurn("f", `"{\"a\":1}"`, "r"), toolTurn("f", `"{\"a\":2}"`, "r"), false, true},
		"spelling of tool arguments": {toolTurn("g", `"{\"a\":1,\"b\":2}"`, "r"), toolTurn("g", `"{\"b\": 2, \"a\": 1.0}"`, "r"), true, true},
		"tool results":               {toolTurn("h", `"{}"`, "r1"), toolTurn("h", `"{}"`, "r2"), false, false},
		"call ids":                   {toolTurn("i", `"{}"`, "r"), strings.ReplaceAll(toolTurn("i", `"{}"`, "r"), `"c1"`, `"c2"`), true, true},
		"a clock in the system text": {clockPrompt("2026-05-22T14:30:00Z"), clockPrompt("2026-05-22T14:31:07Z"), true, true},
		"role":                       {user("j", `"x"`), strings.Replace(user("j", `"x"`), "user", "assistant", 1), false, true},
		"missing and empty content":  {`{"model":"k","messages":[{"role":"user"}]}`, user("k", `""`), true, true},
		"missing content and none":   {`{"model":"l","messages":[{"role":"user","content":null}]}`, user("l", `"none"`), false, false},
		"temperature":                {user("m", `"x"`), strings.Replace(user("m", `"x"`), "{", `{"temperature":0.5,`, 1), true, true},
	} {
		for path, same := range map[string]bool{"/v1/chat/completions": c.strict, "/openai/v1/chat/completions": c.text} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				first, second := chat(c.first), chat(c.second)
				first.path, second.path = path, path
				send(t, url, first.with("Authorization", "Bearer "+name+path))
				if a := send(t, url, second.with("Authorization", "Bearer "+name+path)); (a.status == http.StatusTooManyRequests) != same {
					t.Errorf("second: status %d; same prompt: %v %s", a.status, same, a.body)
				}
			})
		}
	}
}

func TestWhoIsCountedTogether(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	base := prompt("again")
	asUser := func(c call, user string) call {
		c.body = strings.Replace(c.body, "{", `{"user":"`+user+`",`, 1)
		return c
	}
	statuses(t, url, base, 5)
	for name, c := range map[string]struct {
		call call
		want int
	}{
		"another key":                   {base.with("Authorization", "Bearer sk-two"), http.StatusOK},
		"a key with the same beginning": {base.with("Authorization", "Bearer sk-one-more"), http.StatusOK},
		"an end user behind the key":    {asUser(base, "alice"), http.StatusOK},
		"a new session of the caller":   {base.with("X-Session-ID", "fresh"), http.StatusOK},
		"a tenant label":                {base.with("X-Tenant-ID", "acme"), http.StatusTooManyRequests},
		"a header that is no UTF-8":     {base.with("X-Tenant-ID", "caf\xe9"), http.StatusTooManyRequests},
		"a request id that is no UTF-8": {base.with("X-Request-ID", "\xff"), http.StatusTooManyRequests},
	} {
		if a := send(t, url, c.call); a.status != c.want {
			t.Errorf("%s: status %d, want %d", name, a.status, c.want)
		}
	}
}

// seconds is an answer's Retry-After.
func seconds(t *testing.T, a answered) int {
	t.Helper()
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil {
		t.Fatalf("Retry-After: %v", err)
	}
	return n
}

func TestSDKRetriesDoNotCountButForgedOnesDo(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	honest := prompt("honest")
	for range 5 {
		send(t, url, honest)
		if a := send(t, url, honest.with("X-Stainless-Retry-Count", "1")); a.status != http.StatusOK {
			t.Fatalf("a retry was counted: status %d", a.status)
		}
	}
	for n := range 3 {
		keyed := prompt("keyed").with("Idempotency-Key", string(rune('a'+n)))
		if diff := cmp.Diff(ok(2), statuses(t, url, keyed, 2)); diff != "" {
			t.Fatalf("a request and its retry under one key (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(ok(2, http.StatusTooManyRequests), statuses(t, url, prompt("keyed"), 3)); diff != "" {
		t.Errorf("after three requests with a retry each (-want +got):\n%s", diff)
	}
	forged := prompt("forged").with("X-Stainless-Retry-Count", "1")
	got := statuses(t, url, forged, 16)
	if diff := cmp.Diff(ok(15, http.StatusTooManyRequests), got); diff != "" {
		t.Errorf("every request marked as a retry (-want +got):\n%s", diff)
	}
}

func TestReplaysOfFailedCallsDoNotCount(t *testing.T) {
	t.Parallel()
	upstream := serve(t, missing503)
	s := start(t, upstream.url)
	for i := range 10 {
		a := send(t, s.URL(), prompt("flaky"))
		if a.status != http.StatusServiceUnavailable {
			t.Fatalf("request %d of a failing upstream: status %d", i+1, a.status)
		}
		// The hit and what came of it are a write each.
		awaitMetric(t, s, `unloop_ledger_writes_total{bucket="LOOP_COUNTERS"}`, func(n float64) bool { return n == float64(2*(i+1)) })
	}
}

func TestZeroMaxHitsTurnsThePromptDetectorOff(t *testing.T) {
	t.Setenv("LOOP_GUARD_MAX_HITS", "0")
	url := start(t, echo(t)).URL()
	if diff := cmp.Diff(ok(12), statuses(t, url, prompt("again"), 12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnvironmentSetsTheDefaultPolicy(t *testing.T) {
	t.Setenv("LOOP_GUARD_MAX_HITS", "2")
	t.Setenv("LOOP_GUARD_WINDOW_SECONDS", "90")
	t.Setenv("LOOP_GUARD_COOLDOWN_SECONDS", "7")
	url := start(t, echo(t)).URL()
	statuses(t, url, prompt("again"), 2)
	if d := send(t, url, prompt("again")).refusal(t).Detail; d.HitCount != 3 || d.WindowSeconds != 90 || d.CooldownSeconds != 7 {
		t.Errorf("detail %+v; want the third of 90 s refused for 7 s", d)
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(cfg *system.Config) { cfg.Embedded.DataDir = dir }
	first, stop := startStoppable(t, echo(t), keep)
	statuses(t, first.URL(), prompt("again"), 3)
	stop()
	second := start(t, echo(t), keep)
	if diff := cmp.Diff(ok(2, http.StatusTooManyRequests), statuses(t, second.URL(), prompt("again"), 3)); diff != "" {
		t.Errorf("after three before the restart (-want +got):\n%s", diff)
	}
}

func TestShutdownFinishesRequestsInFlight(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := blocking(t, arrived, release)
	s, stop := startStoppable(t, upstream)
	answer := make(chan answered, 1)
	go func() {
		a, err := trySend(s.URL(), prompt("slow"))
		if err != nil {
			t.Errorf("request in flight: %v", err)
		}
		answer <- a
	}()
	<-arrived
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	awaitRefusal(t, s.URL()) // it takes no new connections any more
	close(release)
	if a := <-answer; a.status != http.StatusOK {
		t.Errorf("request in flight: status %d", a.status)
	}
	<-stopped
}

// awaitRefusal returns once nobody listens at the address any more.
func awaitRefusal(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if !listening(url) {
			return
		}
	}
	t.Fatal("the gateway still takes connections")
}
