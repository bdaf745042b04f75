package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// keeping is an upstream that keeps histories, as OpenAI's Responses API does, and
// whose model asks for a tool in each answer.
type keeping struct {
	url string
	// arguments of the n-th call, counted from 1.
	arguments func(n int) string

	mu   sync.Mutex
	sent [][]byte // the answers' bodies
}

func keep(t *testing.T, arguments func(n int) string) *keeping {
	t.Helper()
	k := &keeping{arguments: arguments}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	k.url = server.URL
	return k
}

// ServeHTTP answers with a call, as a document or a stream, compressed if that is
// wanted.
func (k *keeping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct{ Stream bool }
	_ = json.NewDecoder(r.Body).Decode(&req)
	k.mu.Lock()
	n := len(k.sent) + 1
	k.sent = append(k.sent, nil)
	k.mu.Unlock()
	var out bytes.Buffer
	var into io.Writer = &out
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		zw := gzip.NewWriter(&out)
		into = zw
		defer func() { _ = zw.Close(); k.finish(w, n, out.Bytes()) }()
	} else {
		defer func() { k.finish(w, n, out.Bytes()) }()
	}
	w.Header().Set("Content-Type", "application/json")
	if req.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = io.WriteString(into, k.answer(n, req.Stream))
}

func (k *keeping) finish(w http.ResponseWriter, n int, body []byte) {
	k.mu.Lock()
	k.sent[n-1] = body
	k.mu.Unlock()
	_, _ = w.Write(body)
}

func (k *keeping) answer(n int, stream bool) string {
	item := func(arguments, status string) string {
		return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":%q,"call_id":"call_%d","name":"read","arguments":%s}`, n, status, n, jsonLine(arguments))
	}
	response := func(status, output string) string {
		return fmt.Sprintf(`{"id":"resp_%08d","object":"response","status":%q,"output":[%s]}`, n, status, output)
	}
	whole := item(k.arguments(n), "completed")
	if !stream {
		return response("completed", whole)
	}
	var b strings.Builder
	for _, event := range []string{
		`{"type":"response.created","response":` + response("in_progress", "") + `}`,
		`{"type":"response.output_item.added","output_index":0,"item":` + item("", "in_progress") + `}`,
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":` + jsonLine(k.arguments(n)) + `}`,
		`{"type":"response.output_item.done","output_index":0,"item":` + whole + `}`,
		`{"type":"response.completed","response":` + response("completed", whole) + `}`,
	} {
		b.WriteString("data: " + strings.ReplaceAll(event, "\n", "") + "\n\n")
	}
	return b.String()
}

// delta is a request that brings nothing but the result of the n-th call, or the
// task if there is none yet; kept names what it goes on from.
func delta(n int, result, kept string, stream bool) call {
	input := `[{"role":"user","content":"go"}]`
	if n > 0 {
		input = fmt.Sprintf(`[{"type":"function_call_output","call_id":"call_%d","output":%q}]`, n, result)
	}
	tools := `"tools":[{"type":"function","name":"read"}],`
	if strings.Contains(kept, `"prompt"`) {
		tools = ""
	}
	c := chat(fmt.Sprintf(`{"model":"m","stream":%v,%s%s"input":%s}`, stream, tools, kept, input))
	c.path = "/v1/responses"
	return c
}

// byAnswer names the n-th answer; byConversation the conversation of all.
func byAnswer(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(`"previous_response_id":"resp_%08d",`, n)
}

// byPrompt names the n-th answer, and a stored prompt that has the tools.
func byPrompt(n int) string { return `"prompt":{"id":"pmpt_1"},` + byAnswer(n) }

func byConversation(int) string { return `"conversation":"conv_1",` }

// An agent that sends nothing but results, each to another gateway, is hinted at
// its third identical call and blocked at its fifth.
func TestCallsThatOnlyTheProviderKeepsAddUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept     func(n int) string
		stream   bool
		encoding string
	}{
		"plain": {byAnswer, false, "identity"}, "streamed": {byAnswer, true, "identity"},
		"compressed": {byAnswer, false, "gzip"}, "streamed, compressed": {byAnswer, true, "gzip"},
		"of a stored prompt": {byPrompt, false, "identity"},
		"in a conversation":  {byConversation, false, "identity"}, "in a conversation, streamed": {byConversation, true, "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The same arguments, spelled differently each time.
			upstream := keep(t, func(n int) string { return []string{`{"path":"a.go","n":1}`, `{ "n": 1.0, "path": "a.go" }`}[n%2] })
			tools := policies(t, onlyTools)
			first := start(t, upstream.url, tools)
			gateways := []*system.System{first, start(t, upstream.url, tools, join(first))}
			var got []string
			for n := range 7 {
				at := min(n, 5) // a blocked agent tries again
				req := delta(at, "package a", c.kept(at), c.stream)
				// Without the header Go's client asks for gzip, and undoes it.
				a := send(t, gateways[n%2].URL(), req.with("Accept-Encoding", c.encoding))
				got = append(got, fmt.Sprint(a.status, " ", a.header.Get("X-Loop-Action")))
				if a.status == http.StatusOK && !bytes.Equal(a.body, upstream.sent[n]) {
					t.Errorf("answer %d: the bytes changed", n+1)
				}
			}
			want := []string{"200 ", "200 ", "200 ", "200 hint", "200 hint", "429 reject", "429 reject"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("by round (-want +got):\n%s", diff)
			}
			for _, s := range gateways {
				for _, name := range []string{"unknown_answers", "unknown_calls", "lost_answers"} {
					if n := metric(t, s, "unloop_gateway_"+name+"_total"); n != 0 {
						t.Errorf("%s: %v", name, n)
					}
				}
			}
		})
	}
}

func TestProgressThatOnlyTheProviderKeepsIsNoLoop(t *testing.T) {
	t.Parallel()
	same := always(`{"path":"a.go"}`)
	for name, c := range map[string]struct{ arguments, result func(int) string }{
		"new arguments": {numbered(`{"page":%d}`), always("a page")}, "new results": {same, numbered("state %d")},
	} {
		for _, kept := range []func(int) string{byAnswer, byConversation} {
			upstream := keep(t, c.arguments)
			url := start(t, upstream.url, policies(t, "bundle_version: 1\npolicies:\n  - {id: tools, spec: {tool: {}, cycle: {}}}\n")).URL()
			for n := range 12 {
				a := send(t, url, delta(n, c.result(n), kept(n), false))
				if a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" {
					t.Fatalf("%s, round %d: status %d, action %q", name, n, a.status, a.header.Get("X-Loop-Action"))
				}
			}
		}
	}
}

// A request that is sent again is the same round.
func TestResultsThatAreSentAgainCountOnce(t *testing.T) {
	t.Parallel()
	for _, kept := range []func(int) string{byAnswer, byConversation} {
		upstream := keep(t, always(`{"path":"a.go"}`))
		url := start(t, upstream.url, policies(t, onlyTools)).URL()
		send(t, url, delta(0, "", kept(0), false))
		for i := range 8 {
			if a := send(t, url, delta(1, "package a", kept(1), false)); a.status != http.StatusOK || a.header.Get("X-Loop-Action") != "" {
				t.Fatalf("sent %d times: status %d, action %q", i+1, a.status, a.header.Get("X-Loop-Action"))
			}
		}
	}
}

// A human who speaks beside the results, or after them, starts afresh.
func TestHumanStartsAfreshWhereTheProviderKeepsTheHistory(t *testing.T) {
	t.Parallel()
	upstream := keep(t, always(`{"path":"a.go"}`))
	url := start(t, upstream.url, policies(t, onlyTools)).URL()
	for n := range 12 {
		c := delta(n, "package a", byAnswer(n), false)
		if n > 0 && n%4 == 0 {
			c.body = strings.Replace(c.body, `"input":[`, fmt.Sprintf(`"input":[{"role":"user","content":"and now %c?"},`, 'a'+n), 1)
		}
		if a := send(t, url, c); a.status != http.StatusOK {
			t.Fatalf("round %d: status %d, %s", n, a.status, a.body)
		}
	}
}

// What a client sends decides nothing of whether it gets its answer: after a body
// that can't be read there are calls in the answer all the same.
func TestCallsAfterARequestThatCannotBeReadPass(t *testing.T) {
	t.Parallel()
	k := keep(t, func(int) string { return `{"path":"a"}` })
	url := start(t, k.url).URL()
	for _, encoding := range []string{"identity", "gzip"} {
		for _, body := range []string{`{"model":"m","model":"m","input":"x"}`, `{"model":`, ``} {
			c := chat(body).with("X-Session-ID", "s").with("Accept-Encoding", encoding)
			c.path = "/v1/responses"
			a := send(t, url, c)
			k.mu.Lock()
			want := k.sent[len(k.sent)-1]
			k.mu.Unlock()
			if a.status != http.StatusOK || !bytes.Equal(want, a.body) {
				t.Errorf("body %q, %s: status %d, %d bytes, want the %d that were sent", body, encoding, a.status, len(a.body), len(want))
			}
		}
	}
}

// jsonLine is a document as a line of JSON.
func jsonLine(document any) string {
	var line strings.Builder
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return err.Error()
	}
	return line.String()
}
