package answers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
)

// failing are answers of status 200, and whether they hold an error.
var failing = map[string]struct {
	kind, body string
	want       bool
}{
	"Anthropic's stream": {"text/event-stream", `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","usage":{"input_tokens":9}}}

event: error
data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}

`, true},
	"Chat's stream": {"text/event-stream", `data: {"id":"c","choices":[{"delta":{"content":"a"}}]}

data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}

`, true},
	"OpenRouter's stream": {"text/event-stream", `: OPENROUTER PROCESSING

data: {"id":"c","object":"chat.completion.chunk","error":{"code":502,"message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}

`, true},
	"Responses' event": {"text/event-stream", `event: error
data: {"type":"error","code":"server_error","message":"no","param":null,"sequence_number":1}

`, true},
	"an error by its type alone": {"text/event-stream", `data: {"type":"error","code":"server_error","message":"no"}

`, true},
	"a failed response": {"text/event-stream", `event: response.failed
data: {"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"no"},"output":[]}}

`, true},
	"a failed document":      {"application/json", `{"id":"r","status":"failed","error":{"code":"server_error","message":"no"},"output":[]}`, true},
	"Gemini's stream":        {"text/event-stream", "data: {\"candidates\":[{}]}\r\n\r\ndata: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"}}\r\n\r\n", true},
	"Gemini's list":          {"application/json", `[{"candidates":[{}]},` + "\n" + `{"error":{"code":503,"status":"UNAVAILABLE"}}]`, true},
	"an error that is words": {"text/event-stream", "event: error\ndata: the worker died\n\n", true},
	"a text for an error":    {"application/json", `{"error":"model not loaded"}`, true},

	"no error": {"text/event-stream", `event: response.completed
data: {"type":"response.completed","response":{"error":null,"output":[{"type":"function_call_output","error":{"x":1},"output":"error"}]}}

`, false},
	"words of a model": {"text/event-stream", `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"event: error\n\n{\"error\":{}}"},"error":null}

`, false},
	"an error in the output": {"application/json", `{"error":null,"output":[{"type":"mcp_call","error":{"code":1}}],"choices":[{"error":{"code":1}}]}`, false},
	"a tool's arguments":     {"application/json", `{"choices":[{"message":{"tool_calls":[{"function":{"arguments":"{\"error\":{}}"}}]}}]}`, false},
}

func TestErrorsInAnswersAreTold(t *testing.T) {
	t.Parallel()
	for name, a := range failing {
		for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			told := 0
			res := &http.Response{Header: http.Header{"Content-Type": {a.kind}}, ContentLength: -1, Body: io.NopCloser(pieces(strings.NewReader(a.body)))}
			b := answerscan.Watch(res, answers.Failures(func() { told++ }))
			passed, err := io.ReadAll(b)
			if err != nil || string(passed) != a.body {
				t.Errorf("%s: the bytes changed: %v", name, err)
			}
			if (told == 1) != a.want || told > 1 {
				t.Errorf("%s: told %d times, want an error: %v", name, told, a.want)
			}
		}
	}
}
