package e2e

import (
	"fmt"
	"net/http"
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
		"the prompt and the tool":              {"prompt: {}\ntool: {}", loop, 9, 0},
		"a rule and the tool":                  {"tool: {}\n" + oneInTen, loop, 3, 0},
		"a rule and the prompt":                {"prompt: {max_hits: 2, window_seconds: 60, cooldown_seconds: 30}\n" + oneInTen, prompt("again"), 5, 59},
		"a rule that is longer than the block": {"prompt: {max_hits: 2, window_seconds: 4, cooldown_seconds: 4}\n" + oneInTen, prompt("again"), 4, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var at clock
			url := start(t, echo(t), at.set, policies(t, rules(c.spec))).URL()
			var a answered
			for i := range c.times {
				if i > 0 {
					at.advance(time.Second)
				}
				a = send(t, url, c.sends)
			}
			wait := 0
			if a.header.Get("Retry-After") != "" {
				wait = seconds(t, a)
			}
			if a.status != http.StatusTooManyRequests || wait < c.want || wait > c.want+c.want/10 {
				t.Fatalf("status %d, Retry-After %d, want %d and up to a tenth: %s", a.status, wait, c.want, a.body)
			}
			at.advance(max(time.Duration(wait)*time.Second, time.Minute*10*time.Duration(1-min(wait, 1))))
			if got := send(t, url, c.sends); (got.status == http.StatusOK) != (c.want > 0) {
				t.Errorf("after the time it was told: status %d: %s", got.status, got.body)
			}
		})
	}
}

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
