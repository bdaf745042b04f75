package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// inBackground is an upstream that answers later, by GET, each time with one call.
func inBackground(t *testing.T) string {
	t.Helper()
	k := &keeping{arguments: always(`{"path":"a.go"}`)}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		var n int
		switch _, err := fmt.Sscanf(r.URL.Path, "/v1/responses/resp_%d", &n); {
		case r.Method == http.MethodPost:
			_, _ = fmt.Fprintf(w, `{"id":"resp_%08d","object":"response","status":"queued","background":true,"output":[]}`, asked.Add(1))
		case err != nil:
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("stream") == "true":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, k.answer(n, true))
		default:
			_, _ = io.WriteString(w, k.answer(n, false))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// An agent whose answers come later, and are fetched at another gateway, is stopped as
// if they had come at once.
func TestCallsOfAnswersThatAreFetchedLaterAddUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request func(n int) call
		query   string
	}{
		"by the answer": {func(n int) call { return delta(n, "package a", byAnswer(n), false) }, ""},
		"streamed":      {func(n int) call { return delta(n, "package a", byAnswer(n), false) }, "?stream=true&starting_after=3"},
		"of a user": {func(n int) call {
			c := delta(n, "package a", byAnswer(n), false)
			c.body = strings.Replace(c.body, `{`, `{"safety_identifier":"u",`, 1)
			return c
		}, ""},
		"in a conversation": {func(n int) call { return delta(n, "package a", byConversation(n), false) }, ""},
		"by references":     {func(n int) call { return referring(n, same) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := inBackground(t)
			tools := policies(t, onlyTools)
			first := start(t, upstream, tools)
			gateways := []*system.System{first, start(t, upstream, tools, join(first))}
			var got []int
			for n := range 6 {
				req := c.request(n)
				req.body = strings.Replace(req.body, `{`, `{"background":true,`, 1)
				got = append(got, send(t, gateways[n%2].URL(), req).status)
				fetch := call{http.MethodGet, fmt.Sprintf("/v1/responses/resp_%08d%s", n+1, c.query), "", req.header}
				send(t, gateways[(n+1)%2].URL(), fetch)
			}
			if diff := cmp.Diff(ok(5, http.StatusTooManyRequests), got); diff != "" {
				t.Errorf("by round (-want +got):\n%s", diff)
			}
		})
	}
}

// The usage of an answer in background mode settles what its request reserved, once, at
// whatever gateway and however often it is fetched.
func TestAnswersThatAreFetchedLaterCostWhatTheySay(t *testing.T) {
	t.Parallel()
	asking := chat(`{"model":"m","background":true,"max_output_tokens":300,"input":"a question"}`)
	asking.path = "/v1/responses"
	for name, c := range map[string]struct {
		posted, fetched string
		want            int
	}{
		"finished":          {`"queued"`, `"completed","usage":{"input_tokens":4000,"output_tokens":1000}`, 5000},
		"failed":            {`"queued"`, `"failed","error":{"code":"server_error","message":"no"},"usage":null`, 0},
		"not finished":      {`"queued"`, `"in_progress","error":null,"usage":null`, 300 + len(`"a question"`)/4},
		"finished at once":  {`"completed","usage":{"input_tokens":40,"output_tokens":10}`, `"completed","usage":{"input_tokens":40,"output_tokens":10}`, 50},
		"failed in between": {`"failed","error":{"code":"server_error","message":"no"}`, `"failed","error":{"code":"server_error","message":"no"}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				status := c.posted
				if r.Method == http.MethodGet {
					status = c.fetched
				}
				_, _ = io.WriteString(w, `{"id":"resp_00000001","object":"response","output":[],"status":`+status+`}`)
			}))
			t.Cleanup(server.Close)
			var stopped clock
			tokens := policies(t, rules(million))
			first := start(t, server.URL, stopped.set, tokens)
			second := start(t, server.URL, stopped.set, tokens, join(first))
			send(t, first.URL(), asking)
			for _, at := range []*system.System{second, first, second, first} {
				send(t, at.URL(), call{http.MethodGet, "/v1/responses/resp_00000001", "", asking.header})
			}
			untilTaken(t, first.URL(), c.want)
			send(t, first.URL(), call{http.MethodGet, "/v1/responses/resp_00000001", "", asking.header})
			untilTaken(t, second.URL(), c.want)
		})
	}
}
