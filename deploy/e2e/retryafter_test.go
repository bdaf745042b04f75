package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that waits as it is told passes, whatever else stops its request beside what it
// was told of. One that waiting does not help is told no time.
func TestRetryAfterCoversAllThatStopsTheRequest(t *testing.T) {
	t.Parallel()
	loop := chat(toolSession(6, always(`{"path":"a.go"}`), always("package main")))
	for name, c := range map[string]struct {
		spec  string
		sends call
		times int // a second apart
		want  int // seconds; 0 for none
	}{
		"the prompt and the request": {
			"prompt: {max_hits: 5, window_seconds: 5, cooldown_seconds: 5}\n" +
				"loop_detection: {enabled: true, window_seconds: 25, threshold_identical_requests: 4, action: reject}", prompt("again"), 9, 25,
		},
		"the prompt, and the next time the request": {
			"prompt: {max_hits: 3, window_seconds: 10, cooldown_seconds: 5}\n" +
				"loop_detection: {enabled: true, window_seconds: 40, threshold_identical_requests: 7, action: reject}", prompt("again"), 6, 40,
		},
		"the prompt, and the request after hits on the block": {
			"prompt: {max_hits: 3, window_seconds: 10, cooldown_seconds: 30}\n" +
				"loop_detection: {enabled: true, window_seconds: 40, threshold_identical_requests: 8, action: reject}", prompt("again"), 12, 40,
		},
		"the prompt and the tool": {"prompt: {}\ntool: {}", loop, 9, 0},
		"a rule and the tool":     {"tool: {}\n" + oneInTen, loop, 3, 0},
		"two rules": {
			`rules: [{name: few, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 0.1, burst: 1}}, {name: fewer, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 0.05, burst: 1}}]`,
			prompt("again"), 3, 18,
		},
		"a rule and the request": {
			"loop_detection: {enabled: true, window_seconds: 25, threshold_identical_requests: 2, action: reject}\n" + oneInTen, prompt("again"), 3, 25,
		},
		"a rule and a breaker of calls": {"tool: {global_circuit_breaker: 5}\n" + oneInTen, loop, 3, 0},
		"a breaker of spending, and the prompt": {
			"prompt: {max_hits: 2, window_seconds: 10, cooldown_seconds: 5}\n" +
				costly + "circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 1000, action: reject, auto_reset_after_minutes: 2}", prompt("again"), 6, 118,
		},
		"a breaker of spending that stays open": {
			costly + "circuit_breaker: {enabled: true, spend_rate_threshold_per_minute: 1000, action: reject}", prompt("again"), 6, 0,
		},
		"a rule and the prompt":                {"prompt: {max_hits: 2, window_seconds: 60, cooldown_seconds: 30}\n" + oneInTen, prompt("again"), 5, 59},
		"a rule that is longer than the block": {"prompt: {max_hits: 2, window_seconds: 4, cooldown_seconds: 4}\n" + oneInTen, prompt("again"), 4, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var at clock
			url := start(t, echo(t), at.set, policies(t, rules(c.spec))).URL()
			for surface, ask := range surfaces {
				sends := c.sends.with("Authorization", "Bearer sk-"+surface)
				var got told
				for i := range c.times {
					if i > 0 {
						at.advance(time.Second)
					}
					got = ask(t, url, sends)
				}
				if !got.stopped || got.wait < c.want || got.wait > c.want+c.want/10 || c.want > 0 && !strings.Contains(got.message, fmt.Sprint(got.wait, " second")) {
					t.Fatalf("%s: %+v, want %d and up to a tenth", surface, got, c.want)
				}
				if c.want == 0 {
					at.advance(10 * time.Minute)
				} else {
					at.advance(time.Duration(c.want)*time.Second - 1500*time.Millisecond)
					if d := decide(t, url, about(sends, `,"peek":true`)); d.Action != "reject" {
						t.Errorf("%s: it passes 1.5 s before the time it was told: %+v", surface, d)
					}
					at.advance(time.Duration(got.wait-c.want)*time.Second + 1500*time.Millisecond)
				}
				if after := ask(t, url, sends); after.stopped != (c.want == 0) {
					t.Errorf("%s: after the time it was told: %+v", surface, after)
				}
			}
		})
	}
}

// Who is stopped by an operator is told no time, whatever else stops the request: waiting
// does not help.
func TestAnOperatorsStopTellsNoTime(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, rules(oneInTen)+"kill_switches: [{scope_key: \"header:x-org\", scope_value: bad}]\n")).URL()
	for surface, ask := range surfaces {
		sends := prompt("again").with("Authorization", "Bearer sk-"+surface)
		ask(t, url, sends)
		if got := ask(t, url, sends.with("X-Org", "bad")); !got.stopped || got.wait != 0 || !strings.Contains(got.message, "operator") {
			t.Errorf("%s: %+v", surface, got)
		}
	}
}

// told is what a client is told of a request.
type told struct {
	stopped bool
	wait    int // seconds; 0 for none
	message string
}

// surfaces are the ways to send a request or to ask about one.
var surfaces = map[string]func(t *testing.T, url string, c call) told{
	"forwarded": func(t *testing.T, url string, c call) told { return refusedBy(t, send(t, url, c)) },
	"decision":  func(t *testing.T, url string, c call) told { return refusedBy(t, send(t, url, decisionOn(c))) },
	"check": func(t *testing.T, url string, c call) told {
		d := decide(t, url, about(c, ""))
		return told{d.Action == "reject" || d.Action == "break", d.RetryAfterSeconds, d.Message}
	},
}

func refusedBy(t *testing.T, a answered) told {
	t.Helper()
	if a.status == http.StatusOK {
		return told{}
	}
	r := a.refusal(t)
	if r.Detail.Message != "" && r.Detail.Message != r.Error.Message {
		t.Errorf("the detail says %q, the error %q", r.Detail.Message, r.Error.Message)
	}
	got := told{stopped: true, message: r.Error.Message}
	if a.header.Get("Retry-After") != "" {
		got.wait = seconds(t, a)
	}
	return got
}

// costly is a rule by which a request costs 300.
const costly = "rules: [{name: spend, limit_keys: [caller], algorithm: cost_based, algorithm_config: {budget: 1000000, period: 1d, fixed_cost: 300, staged_actions: [{threshold_percent: 100, action: reject}]}}]\n"

// oneInTen is a rule that lets one request through in ten seconds.
const oneInTen = `rules: [{name: few, limit_keys: [caller], algorithm: token_bucket, algorithm_config: {rps: 0.1, burst: 1}}]`

// The check API says when waiting helps, as the headers of a refusal do.
func TestTheCheckAPISaysWhenWaitingHelps(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for name, c := range map[string]struct {
		asked call
		want  bool
	}{
		"a loop of tool calls": {chat(toolSession(6, always(`{"path":"a.go"}`), always("package main"))), false},
		"a repeated prompt":    {prompt("again"), true},
	} {
		var got string
		for range 7 {
			d := decide(t, url, about(c.asked, ""))
			got = fmt.Sprint(d.Action, " ", d.RetryAfterSeconds > 0)
		}
		if want := fmt.Sprint("reject ", c.want); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
