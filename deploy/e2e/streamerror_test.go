package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas"
)

// brokenStreams are streams that begin as answers and end in an error, by the path of
// their format, with a request for one.
var brokenStreams = map[string]struct{ path, body, stream string }{
	"chat": {
		"/v1/chat/completions", `{"model":"m","stream":true,"max_tokens":400,"messages":[{"role":"user","content":"hi"}]}`,
		"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"no\",\"type\":\"server_error\"}}\n\n",
	},
	"responses": {
		"/v1/responses", `{"model":"m","stream":true,"max_output_tokens":400,"input":"hi"}`,
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"error\":null,\"output\":[]}}\n\n" +
			"event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"no\"}\n\n",
	},
	"anthropic": {
		"/v1/messages", `{"model":"m","stream":true,"max_tokens":400,"messages":[{"role":"user","content":"hi"}]}`,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9}}}\n\n" +
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no\"}}\n\n",
	},
	"gemini": {
		"/v1beta/models/m:streamGenerateContent?alt=sse", `{"generationConfig":{"maxOutputTokens":400},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\ndata: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"}}\r\n\r\n",
	},
}

// A stream that ends in an error is no answer: the client's replays count as those
// of a call that was answered with 503, and what the request reserved is free again.
func TestAnErrorInAStreamIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range brokenStreams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, c.stream)
			}))
			t.Cleanup(upstream.Close)
			var stopped clock
			s := start(t, upstream.URL, stopped.set, policies(t, `
bundle_version: 1
policies:
  - id: all
    spec:
      prompt: {max_hits: 5}
      rules:
        - {name: tpm, limit_keys: ["header:x-org"], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 100000}}
`))
			request := call{http.MethodPost, c.path, c.body, http.Header{"Authorization": {"Bearer sk-one"}, "X-Org": {"a"}}}
			var got []int
			awaitCounter := watchBucket(t, s, schemas.BucketCounters)
			for range 8 {
				got = append(got, send(t, s.URL(), request).status)
				awaitCounter(`"excused":true`)
			}
			if diff := cmp.Diff(ok(8), got); diff != "" {
				t.Errorf("replays (-want +got):\n%s", diff)
			}
			left := ""
			for deadline := time.Now().Add(checkTimeout); left != "995" && time.Now().Before(deadline); {
				left = remaining(t, s, request, fmt.Sprint(time.Now().UnixNano()))
			}
			if left != "995" {
				t.Errorf("%s00 tokens are left, want all but this request's 400", left)
			}
		})
	}
}

// remaining is the beginning of what a rule has left after another request.
func remaining(t *testing.T, s *system.System, c call, words string) string {
	t.Helper()
	c.body = strings.Replace(c.body, "hi", words, 1)
	return fmt.Sprintf("%.3s", send(t, s.URL(), c).header.Get("RateLimit-Remaining"))
}
