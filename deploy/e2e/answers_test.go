package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
)

// failing is an upstream that answers with the status that a request asks for, and hands
// out the bodies that it gets.
func failing(t *testing.T) (url string, bodies <-chan string) {
	t.Helper()
	got := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(body)
		status, _ := strconv.Atoi(r.Header.Get("X-Test-Status"))
		w.Header().Set("X-Loop-Action", "forged")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(max(status, http.StatusOK))
		_, _ = io.WriteString(w, `{"choices":[]}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// A hint whose request failed is given again with its replay, and once only with an answer.
func TestAHintIsGivenAgainWhereItsRequestFailed(t *testing.T) {
	t.Parallel()
	upstream, bodies := failing(t)
	url := start(t, upstream).URL()
	third := chat(toolSession(3, always(`{"path":"a.go"}`), always("package main")))
	for i, c := range []struct {
		status int
		retry  string
		hint   bool
	}{{500, "0", true}, {503, "1", true}, {200, "2", true}, {200, "3", false}} {
		sent := third.with("X-Test-Status", fmt.Sprint(c.status)).with("X-Stainless-Retry-Count", c.retry)
		a := send(t, url, sent)
		body := <-bodies
		if hinted := a.header.Get("X-Loop-Action") == "hint"; a.status != c.status || hinted != c.hint || strings.Contains(body, "read_file was called") != c.hint && (len(body) > len(third.body)) != c.hint {
			t.Errorf("try %d: status %d, action %q, forwarded %d bytes of %d", i+1, a.status, a.header.Get("X-Loop-Action"), len(body), len(third.body))
		}
	}
}

// The replay bears its hint wherever it comes, and once only.
func TestAHintIsGivenAgainAtAnotherGateway(t *testing.T) {
	t.Parallel()
	upstream, bodies := failing(t)
	first := start(t, upstream)
	second := start(t, upstream, join(first))
	told, err := connect(t, first).SubscribeSync(schemas.SubjectOwed)
	if err != nil {
		t.Fatal(err)
	}
	third := chat(toolSession(3, always(`{"path":"a.go"}`), always("package main")))
	for i, c := range []struct {
		gateway *system.System
		status  int
		hint    bool
		tells   bool
	}{{first, 500, true, true}, {second, 503, true, true}, {first, 200, true, true}, {second, 200, false, false}} {
		sent := third.with("X-Test-Status", fmt.Sprint(c.status)).with("X-Stainless-Retry-Count", fmt.Sprint(i))
		a := send(t, c.gateway.URL(), sent)
		body := <-bodies
		if hinted := a.header.Get("X-Loop-Action") == "hint"; a.status != c.status || hinted != c.hint || (len(body) > len(third.body)) != c.hint {
			t.Errorf("try %d: status %d, action %q, forwarded %d bytes of %d", i+1, a.status, a.header.Get("X-Loop-Action"), len(body), len(third.body))
		}
		if !c.tells {
			continue
		}
		if _, err := told.NextMsg(patience); err != nil {
			t.Fatalf("after try %d: %v", i+1, err)
		}
		for _, gateway := range []*system.System{first, second} { // whose answer comes behind what was told
			send(t, gateway.URL(), unique())
			<-bodies
		}
	}
}

// No upstream can say what Unloop does.
func TestHeadersOfUnloopsComeFromNobodyElse(t *testing.T) {
	t.Parallel()
	upstream, _ := failing(t)
	if a := send(t, start(t, upstream).URL(), unique()); a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" {
		t.Errorf("status %d, action %q", a.status, a.header.Get("X-Loop-Action"))
	}
}

// What ends an agent is known of prompts. Other requests get the source's 429 each time.
func TestOtherRequestsThanPromptsAreLimitedEachTime(t *testing.T) {
	t.Parallel()
	upstream, _ := failing(t)
	url := start(t, upstream, policies(t, compatible(`
loop_detection: {enabled: true, window_seconds: 60, threshold_identical_requests: 3, action: reject}
`))).URL()
	same := call{http.MethodPost, "/v1/orders", `{"item":1}`, http.Header{"Authorization": {"Bearer o"}}}
	for i := range 9 {
		want := http.StatusOK
		if i >= 2 {
			want = http.StatusTooManyRequests
		}
		if a := send(t, url, same); a.status != want {
			t.Errorf("request %d: status %d, want %d", i+1, a.status, want)
		}
	}
}

// A decision about a HEAD request is an answer to the POST that asks for it.
func TestADecisionAboutAHeadRequestHasABody(t *testing.T) {
	t.Parallel()
	upstream, _ := failing(t)
	url := start(t, upstream, policies(t, rules(`
rules:
  - {name: few, limit_keys: ["header:x-org"], algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 1}}
`))).URL()
	asked := decisionOn(call{http.MethodHead, "/v1/models", "", http.Header{"X-Org": {"acme"}}})
	send(t, url, asked)
	if a := send(t, url, asked); a.status != limited || a.refusal(t).Error.Code != "rate_limit_exceeded" {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

// An informational answer before the answer changes nothing of that.
func TestEarlyHintsLeaveTheAnswerAsItIs(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header()["Content-Type"] = nil
		_, _ = io.WriteString(w, "<html>")
	}))
	t.Cleanup(upstream.Close)
	const page = "https://app.example"
	s := start(t, upstream.URL, func(cfg *system.Config) { cfg.Gateway.Pages.AllowOrigin = []string{page} })
	a := send(t, s.URL(), unique().with("Origin", page))
	if got := a.header.Get("Content-Type"); a.status != http.StatusOK || got != "" || string(a.body) != "<html>" {
		t.Errorf("status %d, type %q: %s", a.status, got, a.body)
	}
	if got := a.header.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != page {
		t.Errorf("the page may read it: %q", got)
	}
}
