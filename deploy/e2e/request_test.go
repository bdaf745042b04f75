package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// identical is a bundle with the request detector.
func identical(threshold int, action string) string {
	return fmt.Sprintf(`
bundle_version: 1
policies:
  - id: identical
    spec:
      selector: {pathPrefix: /v1/}
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: %d, action: %s, similarity: exact}
`, threshold, action)
}

func TestIdenticalRequestsAreRejectedFromTheThresholdOn(t *testing.T) {
	t.Parallel()
	var stopped clock
	url := start(t, echo(t), stopped.set, policies(t, identical(10, "reject"))).URL()
	c := prompt("again")
	for i := range 9 {
		if a := send(t, url, c); a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" {
			t.Fatalf("request %d: status %d, action %q; want it to pass without a finding", i+1, a.status, a.header.Get("X-Loop-Action"))
		}
	}
	a := send(t, url, c)
	want := map[string]string{
		"Retry-After": "60", "X-Loop-Action": "reject", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "request",
		"X-Loop-Count": "10", "X-Should-Retry": "false", "X-Loop-Would": "", "X-Loop-Degraded": "",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = a.header.Get(name)
	}
	if diff := cmp.Diff(want, got); a.status != http.StatusTooManyRequests || diff != "" {
		t.Errorf("10th request: status %d; headers (-want +got):\n%s", a.status, diff)
	}
	for range 4 {
		send(t, url, c)
	}
	if a := send(t, url, c); a.status != http.StatusTooManyRequests || a.refusal(t).Detail.HitCount != 15 {
		t.Errorf("15th request: status %d, count %d; want 429, 15", a.status, a.refusal(t).Detail.HitCount)
	}
}

func TestWarnedRequestsPassUnchanged(t *testing.T) {
	t.Parallel()
	upstream := serve(t, greeting)
	url := start(t, upstream.url, policies(t, identical(5, "warn"))).URL()
	var last answered
	for range 5 {
		last = send(t, url, prompt("again"))
	}
	if last.status != http.StatusOK || last.header.Get("X-Loop-Action") != "warn" || last.header.Get("X-Loop-Count") != "5" {
		t.Errorf("5th: status %d, action %q, count %q; want 200, warn, 5", last.status, last.header.Get("X-Loop-Action"), last.header.Get("X-Loop-Count"))
	}
	requests := upstream.Requests()
	if first, fifth := requests[0], requests[4]; !bytes.Equal(first.Body, fifth.Body) || !cmp.Equal(first.Header, fifth.Header) {
		t.Errorf("the upstream got a warned request that differs:\n%s", cmp.Diff(first, fifth))
	}
}

func TestWhatMakesARequestIdentical(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, identical(2, "reject"))).URL()
	body := func(method, path, body string) call {
		return call{method, path, body, http.Header{"Authorization": {"Bearer sk-one"}}}
	}
	for name, c := range map[string]struct {
		first, second call
		same          bool
	}{
		"nothing differs":     {body("POST", "/v1/a", `{"x":1}`), body("POST", "/v1/a", `{"x":1}`), true},
		"key order and space": {body("POST", "/v1/b", `{"x":1,"y":[2,3]}`), body("POST", "/v1/b", "{ \"y\": [2, 3],\n\"x\": 1 }"), true},
		"order of the query":  {body("POST", "/v1/c?a=1&b=2", "q"), body("POST", "/v1/c?b=2&a=1", "q"), true},
		"repeated query keys": {body("POST", "/v1/d?a=1&a=2", "q"), body("POST", "/v1/d?a=2&a=1", "q"), false},
		"one query key fewer": {body("POST", "/v1/e?a=1&a=1", "q"), body("POST", "/v1/e?a=1", "q"), false},
		"body":                {body("POST", "/v1/f", `{"x":1}`), body("POST", "/v1/f", `{"x":2}`), false},
		"order of a list":     {body("POST", "/v1/g", `[1,2]`), body("POST", "/v1/g", `[2,1]`), false},
		"method":              {body("POST", "/v1/h", ""), body("GET", "/v1/h", ""), false},
		"path":                {body("GET", "/v1/i", ""), body("GET", "/v1/j", ""), false},
		"caller":              {body("GET", "/v1/k", ""), body("GET", "/v1/k", "").with("Authorization", "Bearer sk-two"), false},
		"header":              {body("GET", "/v1/l", ""), body("GET", "/v1/l", "").with("X-Trace", "7"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a := send(t, url, c.first); a.status != http.StatusOK {
				t.Fatalf("first: status %d", a.status)
			}
			if a := send(t, url, c.second); (a.status == http.StatusTooManyRequests) != c.same {
				t.Errorf("second: status %d; same request: %v", a.status, c.same)
			}
		})
	}
}

func TestOtherRequestsInBetweenDoNotHideALoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, identical(5, "reject"))).URL()
	a, b := prompt("A"), prompt("B")
	got := append(statuses(t, url, a, 4), statuses(t, url, b, 4)...)
	got = append(got, send(t, url, a).status)
	if diff := cmp.Diff(ok(8, http.StatusTooManyRequests), got); diff != "" {
		t.Errorf("A×4, B×4, A (-want +got):\n%s", diff)
	}
	if r := send(t, url, b); r.refusal(t).Detail.HitCount != 5 {
		t.Errorf("B was counted %d times before, want 4", r.refusal(t).Detail.HitCount-1)
	}
}

func TestShadowReportsAndChangesNothing(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, `
bundle_version: 1
policies:
  - id: trial
    spec:
      mode: shadow
      loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 2, action: reject}
`)).URL()
	send(t, url, prompt("again"))
	a := send(t, url, prompt("again"))
	if a.status != http.StatusOK || a.header.Get("X-Loop-Would") != "reject" {
		t.Errorf("status %d, would %q; want 200, reject", a.status, a.header.Get("X-Loop-Would"))
	}
	for _, name := range []string{"Retry-After", "X-Loop-Action", "X-Loop-Reason", "X-Loop-Count", "X-Loop-Detector"} {
		if v := a.header.Get(name); v != "" {
			t.Errorf("a shadow finding sets %s: %s", name, v)
		}
	}
}
