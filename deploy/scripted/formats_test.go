package scripted

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// streams ask for a stream in each format, with a body that does.
var streams = map[string]struct{ path, body string }{
	"Chat Completions": {"/v1/chat/completions", `{"model":"m","stream":true}`},
	"Responses":        {"/v1/responses", `{"model":"m","stream":true}`},
	"Messages":         {"/v1/messages", `{"model":"m","stream":true}`},
	"Gemini's events":  {"/v1beta/models/m:streamGenerateContent?alt=sse", `{}`},
	"Gemini's array":   {"/v1beta/models/m:streamGenerateContent", `{}`},
}

var oslo = ToolCall{ID: "call_1", Name: "weather", Arguments: `{"city":"Oslo"}`}

// body asks an upstream with the script and returns the whole answer.
func body(t *testing.T, reply Reply, path, ask string) (contentType, text string) {
	t.Helper()
	server := httptest.NewServer(New(func(Request) Reply { return reply }))
	defer server.Close()
	resp := post(t, t.Context(), server.URL+path, ask)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Get("Content-Type"), string(read)
}

func TestWholeAnswersOfEachFormat(t *testing.T) {
	t.Parallel()
	reply := Reply{Pieces: []string{"Good ", "day"}, ToolCalls: []ToolCall{oslo}}
	for path, want := range map[string]string{
		"/v1/messages": `{"content":[{"text":"Good day","type":"text"},{"id":"call_1","input":{"city":"Oslo"},"name":"weather","type":"tool_use"}],` +
			`"id":"msg_000001","model":"m","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"input_tokens":3,"output_tokens":5}}`,
		"/v1beta/models/m:generateContent": `{"candidates":[{"content":{"parts":[{"text":"Good day"},` +
			`{"functionCall":{"args":{"city":"Oslo"},"id":"call_1","name":"weather"},"thoughtSignature":"c2lnbmVk"}],"role":"model"},"finishReason":"STOP","index":0}],` +
			`"modelVersion":"m","responseId":"gemini-000001","usageMetadata":{"candidatesTokenCount":5,"promptTokenCount":3,"totalTokenCount":8}}`,
		"/v1/responses": `{"created_at":1767225600,"error":null,"id":"resp_000001","incomplete_details":null,"instructions":null,"metadata":{},"model":"m","object":"response",` +
			`"output":[{"content":[{"annotations":[],"logprobs":[],"text":"Good day","type":"output_text"}],"id":"msg_000001","role":"assistant","status":"completed","type":"message"},` +
			`{"arguments":"{\"city\":\"Oslo\"}","call_id":"call_1","id":"fc_call_1","name":"weather","status":"completed","type":"function_call"}],` +
			`"parallel_tool_calls":true,"status":"completed","temperature":1,"tool_choice":"auto","tools":[],"top_p":1,` +
			`"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":8}}`,
	} {
		if _, got := body(t, reply, path, `{"model":"m"}`); got != want {
			t.Errorf("%s:\n%s", path, cmp.Diff(want, got))
		}
	}
}

// events are the names of a stream's events with what they add.
func events(t *testing.T, stream string) []string {
	t.Helper()
	var all []string
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, found := strings.Cut(event, "\ndata: ")
		var document struct {
			Type  string `json:"type"`
			Delta any    `json:"delta"`
		}
		if err := json.Unmarshal([]byte(data), &document); err != nil || !found || name != "event: "+document.Type {
			t.Fatalf("event %q: %v", event, err)
		}
		line := document.Type
		if document.Delta != nil {
			line += " " + text(document.Delta)
		}
		all = append(all, line)
	}
	return all
}

func TestStreamsWithNamedEvents(t *testing.T) {
	t.Parallel()
	reply := Reply{Pieces: []string{"Good ", "day"}, ToolCalls: []ToolCall{oslo}}
	for name, want := range map[string][]string{
		"Messages": {
			"message_start", "content_block_start", "ping",
			`content_block_delta {"text":"Good ","type":"text_delta"}`, `content_block_delta {"text":"day","type":"text_delta"}`, "content_block_stop",
			"content_block_start", `content_block_delta {"partial_json":"","type":"input_json_delta"}`,
			`content_block_delta {"partial_json":"{\"city\"","type":"input_json_delta"}`,
			`content_block_delta {"partial_json":":\"Oslo\"}","type":"input_json_delta"}`, "content_block_stop",
			`message_delta {"stop_reason":"tool_use","stop_sequence":null}`, "message_stop",
		},
		"Responses": {
			"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
			`response.output_text.delta "Good "`, `response.output_text.delta "day"`,
			"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.output_item.added",
			`response.function_call_arguments.delta "{\"city\""`, `response.function_call_arguments.delta ":\"Oslo\"}"`,
			"response.function_call_arguments.done", "response.output_item.done", "response.completed",
		},
	} {
		kind, got := body(t, reply, streams[name].path, streams[name].body)
		if diff := cmp.Diff(want, events(t, got)); diff != "" || kind != eventStream {
			t.Errorf("%s, %s (-want +got):\n%s", name, kind, diff)
		}
	}
}

func TestGeminiStreamsAsEventsAndAsAnArray(t *testing.T) {
	t.Parallel()
	first := `{"candidates":[{"content":{"parts":[{"text":"Good "}],"role":"model"},"index":0}],`
	last := `{"candidates":[{"content":{"parts":[{"text":"day"}],"role":"model"},"finishReason":"STOP","index":0}],`
	rest := `"modelVersion":"m","responseId":"gemini-000001","usageMetadata":{"candidatesTokenCount":2,"promptTokenCount":0,"totalTokenCount":2}}`
	for name, want := range map[string]string{
		"Gemini's events": "data: " + first + rest + "\r\n\r\ndata: " + last + rest + "\r\n\r\n",
		"Gemini's array":  "[" + first + rest + "\n,\r\n" + last + rest + "\n]\n",
	} {
		if _, got := body(t, Text("Good ", "day"), streams[name].path, streams[name].body); got != want {
			t.Errorf("%s:\n%s", name, cmp.Diff(want, got))
		}
	}
	if _, got := body(t, Reply{}, streams["Gemini's array"].path, "{}"); !json.Valid([]byte(got)) {
		t.Errorf("an empty reply is %q", got)
	}
}

func TestErrorsOfEachFormat(t *testing.T) {
	t.Parallel()
	for want, reply := range map[string]Reply{
		`{"error":{"message":"gone","type":"not_found_error"},"request_id":"req_scripted","type":"error"}`: AnthropicError(404, "not_found_error", "gone"),
		`{"error":{"code":404,"message":"gone","status":"NOT_FOUND"}}`:                                     GeminiError(404, "NOT_FOUND", "gone"),
	} {
		if got := string(reply.Body); got != want || reply.Status != 404 {
			t.Errorf("%d %s, want %s", reply.Status, got, want)
		}
	}
}

func TestClientsThatLeaveAStreamAreNoticedInEachFormat(t *testing.T) {
	t.Parallel()
	for name, tt := range streams {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := New(func(Request) Reply { return Reply{Pieces: []string{"first", "second"}, Hold: make(chan struct{})} })
			server := httptest.NewServer(u)
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			resp := post(t, ctx, server.URL+tt.path, tt.body)
			defer resp.Body.Close()
			var seen strings.Builder
			for buf := make([]byte, 512); !strings.Contains(seen.String(), "first"); {
				n, err := resp.Body.Read(buf)
				if seen.Write(buf[:n]); err != nil {
					t.Fatalf("after %q: %v", seen.String(), err)
				}
			}
			cancel()
			if left, err := u.WaitLeft(t.Context(), 1); err != nil || left[0].Number != 1 || strings.Contains(seen.String(), "second") {
				t.Errorf("left: %v, %v after %q", left, err, seen.String())
			}
		})
	}
}

func TestToolResultsAreSeenInEachFormat(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"c","content":"sunny"}]}`:    true,
		`{"messages":[{"role":"tool","content":"sunny"},{"role":"user","content":"thanks"}]}`:                   false,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"sunny"}]}]}`: true,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`:                                false,
		`{"input":"hi"}`: false,
		`{"input":[{"role":"user","content":"hi"},{"type":"function_call_output","call_id":"c","output":"sunny"}]}`:   true,
		`{"contents":[{"role":"user","parts":[{"functionResponse":{"name":"weather","response":{"sky":"sunny"}}}]}]}`: true,
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`:                                                      false,
		`not JSON`: false,
		`{}`:       false,
	} {
		if got := (Request{Body: []byte(body)}).ToolResult(); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}
