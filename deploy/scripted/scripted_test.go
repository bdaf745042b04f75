package scripted

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	call := ToolCall{ID: "call_1", Name: "weather", Arguments: `{"city":"Oslo"}`}
	tests := map[string]struct {
		reply       Reply
		target      string
		body        string
		wantStatus  int
		wantContent string
		want        []string
	}{
		"a plain message": {
			reply: Text("Good ", "day"), target: "/v1/chat/completions", body: `{"model":"m"}`,
			wantStatus: 200, wantContent: "application/json",
			want: []string{`{"id":"chatcmpl-000001","object":"chat.completion","created":1767225600,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Good day"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`},
		},
		"a plain tool call": {
			reply: Tools(call), target: "/v1/chat/completions", body: `{"model":"m"}`,
			wantStatus: 200, wantContent: "application/json",
			want: []string{`{"id":"chatcmpl-000001","object":"chat.completion","created":1767225600,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":3,"total_tokens":6}}`},
		},
		"a streamed message with usage": {
			reply: Text("Good ", "day"), target: "/v1/chat/completions",
			body:       `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
			wantStatus: 200, wantContent: "text/event-stream; charset=utf-8",
			want: []string{
				chunk(`[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"content":"Good "},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"content":"day"},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{},"finish_reason":"stop"}]`),
				chunk(`[],"usage":{"prompt_tokens":16,"completion_tokens":2,"total_tokens":18}`),
				"data: [DONE]",
			},
		},
		"a streamed tool call": {
			reply: Tools(call), target: "/v1/chat/completions", body: `{"model":"m","stream":true}`,
			wantStatus: 200, wantContent: "text/event-stream; charset=utf-8",
			want: []string{
				chunk(`[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\""}}]},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"Oslo\"}"}}]},"finish_reason":null}]`),
				chunk(`[{"index":0,"delta":{},"finish_reason":"tool_calls"}]`),
				"data: [DONE]",
			},
		},
		"an error": {
			reply: Error(500, "server_error", "out of order"), target: "/v1/chat/completions", body: `{}`,
			wantStatus: 500, wantContent: "application/json",
			want: []string{`{"error":{"code":"server_error","message":"out of order","param":null,"type":"server_error"}}`},
		},
		"another path": {
			reply: Text("unused"), target: "/v1/files?limit=2", body: `raw`,
			wantStatus: 200, wantContent: "application/json",
			want: []string{`{"object":"echo","method":"POST","target":"/v1/files?limit=2","body":"raw"}`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(New(func(Request) Reply { return tt.reply }))
			defer server.Close()
			resp := post(t, t.Context(), server.URL+tt.target, tt.body)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSpace(string(text)), "\n\n")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if resp.StatusCode != tt.wantStatus || resp.Header.Get("Content-Type") != tt.wantContent {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, resp.Header.Get("Content-Type"), tt.wantStatus, tt.wantContent)
			}
		})
	}
}

func TestRequestsAreKeptAsTheyCame(t *testing.T) {
	t.Parallel()
	u := New(nil)
	server := httptest.NewServer(u)
	defer server.Close()
	body := `{ "model":"m",  "messages":[{"role":"system","content":[]},{"role":"user","content":"hi"}]}`
	post(t, t.Context(), server.URL+"/v1/chat/completions?b=2&a=1", body).Body.Close()
	requests, err := u.WaitRequests(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	got := requests[0]
	if string(got.Body) != body || got.Target != "/v1/chat/completions?b=2&a=1" || got.Header.Get("X-Test") != "kept" || got.Number != 1 {
		t.Errorf("kept %+v", got)
	}
	if got.Chat.Last().Text() != "hi" || got.Chat.Messages[0].Text() != "" {
		t.Errorf("read as %+v", got.Chat)
	}
}

func TestAClientThatLeavesIsNoticed(t *testing.T) {
	t.Parallel()
	u := New(func(Request) Reply { return Reply{Pieces: []string{"a", "b"}, Hold: make(chan struct{})} })
	server := httptest.NewServer(u)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	resp := post(t, ctx, server.URL+"/v1/chat/completions", `{"stream":true}`)
	defer resp.Body.Close()
	cancel()
	left, err := u.WaitLeft(t.Context(), 1)
	if err != nil || left[0].Number != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAStreamGoesOnWhenReleased(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(New(func(Request) Reply { return Reply{Pieces: []string{"a", "b"}, Hold: release} }))
	defer server.Close()
	resp := post(t, t.Context(), server.URL+"/v1/chat/completions", `{"stream":true}`)
	defer resp.Body.Close()
	close(release)
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		t.Errorf("got %q, %v", text, err)
	}
}

func chunk(choices string) string {
	return `data: {"id":"chatcmpl-000001","object":"chat.completion.chunk","created":1767225600,"model":"m","choices":` + choices + `}`
}

//nolint:revive // the context is what differs between callers
func post(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test", "kept")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func TestAHandlerKeepsNoRequests(t *testing.T) {
	t.Parallel()
	handler := Handler(nil)
	server := httptest.NewServer(handler)
	defer server.Close()
	for want := range 2 {
		resp := post(t, t.Context(), server.URL+"/v1/chat/completions", `{"model":"m"}`)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("chatcmpl-%06d", want+1)) {
			t.Errorf("answered %s, %v", text, err)
		}
	}
	if u, ok := handler.(*Upstream); !ok || len(u.Requests()) != 0 {
		t.Errorf("kept requests: %v", u.Requests())
	}
}
