package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// responses is an upstream that keeps histories, as OpenAI's Responses API
// does: it answers with a new id, as JSON, as a stream, or compressed.
func responses(t *testing.T) string {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := fmt.Sprintf("resp_%08d", n.Add(1))
		body, _ := io.ReadAll(r.Body)
		var req struct{ Stream bool }
		_ = json.Unmarshal(body, &req)
		if req.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":%q,\"object\":\"response\"}}\n\n", id)
			return
		}
		answer := fmt.Appendf(nil, `{"id":%q,"object":"response","output":[]}`, id)
		if r.Header.Get("Accept-Encoding") == "gzip" {
			var zipped bytes.Buffer
			zw := gzip.NewWriter(&zipped)
			_, _ = zw.Write(answer)
			_ = zw.Close()
			w.Header().Set("Content-Encoding", "gzip")
			answer = zipped.Bytes()
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// step is a request that goes on from an answer with the result of one more
// call.
func step(previous string, n int, stream bool) call {
	input := `[{"role":"user","content":"go"}]`
	if previous != "" {
		input = fmt.Sprintf(`[{"type":"function_call","call_id":"c%d","name":"read","arguments":"{}"},{"type":"function_call_output","call_id":"c%d","output":"same"}]`, n, n)
	}
	body := fmt.Sprintf(`{"model":"m","stream":%v,"input":%s`, stream, input)
	if previous != "" {
		body += fmt.Sprintf(`,"previous_response_id":%q`, previous)
	}
	c := chat(body + "}")
	c.path = "/v1/responses"
	return c
}

// previousOf is the id in an answer.
func previousOf(t *testing.T, a answered) string {
	t.Helper()
	at := bytes.Index(a.body, []byte("resp_"))
	if at < 0 {
		t.Fatalf("no id in %q", a.body)
	}
	return string(a.body[at : at+len("resp_00000000")])
}

// A session that only names its last answer is followed from answer to answer,
// whichever gateway gets the next request, and its tool calls add up.
func TestSessionIsFollowedThroughItsAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream   bool
		encoding string
	}{"plain": {}, "streamed": {stream: true}, "compressed": {encoding: "gzip"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := responses(t)
			// Nothing but the tool detector: the prompts differ only in their ids.
			tools := policies(t, "bundle_version: 1\npolicies:\n  - {id: tools, spec: {tool: {}}}\n")
			first := start(t, upstream, tools)
			second := start(t, upstream, tools, join(first))
			gateways := []*system.System{first, second}
			previous := ""
			var got []int
			for n := range 6 {
				req := step(previous, n, c.stream)
				if c.encoding != "" {
					req = req.with("Accept-Encoding", c.encoding)
				}
				a := send(t, gateways[n%2].URL(), req)
				got = append(got, a.status)
				if a.status == http.StatusOK {
					previous = previousOf(t, unzipped(t, a))
				}
			}
			if diff := cmp.Diff(ok(5, http.StatusTooManyRequests), got); diff != "" {
				t.Errorf("by round (-want +got):\n%s", diff)
			}
			for _, s := range gateways {
				if n := metric(t, s, "unloop_gateway_unknown_answers_total"); n != 0 {
					t.Errorf("%v answers were not known", n)
				}
			}
		})
	}
}

// unzipped is an answer without its compression.
func unzipped(t *testing.T, a answered) answered {
	t.Helper()
	if a.header.Get("Content-Encoding") != "gzip" {
		return a
	}
	zr, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if a.body, err = io.ReadAll(zr); err != nil {
		t.Fatal(err)
	}
	return a
}
