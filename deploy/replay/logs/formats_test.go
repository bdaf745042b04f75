package logs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay/logs"
)

const litellm = `{"id":"x1","trace_id":"tr1","call_type":"acompletion","status":"success","startTime":1779460200.25,"endTime":1779460201.5,"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"model_parameters":{"tools":[{"type":"function","function":{"name":"ls"}}],"temperature":0.1},"metadata":{"user_api_key_hash":"abc","user_api_key_team_id":"team"},"end_user":"eve","prompt_tokens":7,"completion_tokens":2,"response_cost":0.0005,"response":{"choices":[]}}
`

func TestLiteLLMLogs(t *testing.T) {
	t.Parallel()
	r := one(t, litellm)
	sameJSON(t, r.Body, `{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"ls"}}]}`)
	r.Body = nil
	want := logs.Request{
		Source: logs.LiteLLM, Line: 1, Time: time.Unix(1779460200, 25e7).UTC(), Method: "POST", Path: "/v1/chat/completions",
		Tenant: "team", Caller: "abc", Session: "tr1", User: "eve", Model: "gpt-4o", Outcome: logs.Outcome{Status: 200, InputTokens: 7, OutputTokens: 2, USD: 0.0005},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestLiteLLMSpendLogs(t *testing.T) {
	t.Parallel()
	r := one(t, `{"request_id":"x","call_type":"anthropic_messages","api_key":"hash","spend":0.5,"startTime":"2026-05-22T14:30:00.5Z","model":"claude","session_id":"s9","end_user":"","team_id":"t2",
		"metadata":"{\"user_api_key_project_id\":\"p1\"}","messages":"[{\"role\":\"user\",\"content\":\"hi\"}]","status":"failure","error_information":{"error_code":"429"}}`)
	sameJSON(t, r.Body, `{"model":"claude","messages":[{"role":"user","content":"hi"}]}`)
	if r.Path != "/v1/messages" || r.Caller != "hash" || r.Session != "s9" || r.Tenant != "t2" || r.Project != "p1" || r.USD != 0.5 || r.Status != 429 ||
		!r.Time.Equal(time.Date(2026, 5, 22, 14, 30, 0, 5e8, time.UTC)) {
		t.Errorf("request is %+v", r)
	}
}

func TestTheProxysOwnRequestIsPreferred(t *testing.T) {
	t.Parallel()
	r := one(t, `{"call_type":"aresponses","startTime":1,"model":"m","messages":"redacted-by-litellm","proxy_server_request":{"url":"http://host/v1/responses?a=1","method":"POST","headers":{},"body":{"model":"m","input":"hello","instructions":"be kind"}}}`)
	sameJSON(t, r.Body, `{"model":"m","input":"hello","instructions":"be kind"}`)
	if r.Path != "/v1/responses?a=1" {
		t.Errorf("path is %q", r.Path)
	}
	r = one(t, `{"call_type":"responses","startTime":1,"model":"m","messages":[{"role":"user","content":"x"}],"proxy_server_request":{}}`)
	sameJSON(t, r.Body, `{"model":"m","input":[{"role":"user","content":"x"}]}`)
}

func TestLiteLLMEntriesWithoutContent(t *testing.T) {
	t.Parallel()
	for _, messages := range []string{`null`, `{}`, `""`, `"redacted-by-litellm"`, `[]`, `[{"role":"user","content":"redacted-by-litellm"}]`} {
		_, faults := read(t, `{"call_type":"completion","startTime":1,"model":"m","messages":`+messages+`}`, logs.Limit)
		if len(faults) != 1 || !errors.Is(faults[0], logs.ErrNoMessages) {
			t.Errorf("messages %s: errors are %v", messages, faults)
		}
	}
	if r := one(t, `{"call_type":"text_completion","startTime":1,"messages":"just text"}`); !strings.Contains(string(r.Body), `"just text"`) {
		t.Errorf("body is %s", r.Body)
	}
	requests, faults := read(t, `{"call_type":"aembedding","startTime":1,"messages":["x"]}`, logs.Limit)
	if len(requests)+len(faults) != 0 {
		t.Errorf("an embedding is no prompt: %v %v", requests, faults)
	}
}

const export = `{
  "resourceSpans": [{
    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
    "scopeSpans": [{
      "scope": {"name": "x", "attributes": []},
      "spans": [
        {"traceId": "t0", "name": "invoke_agent", "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}]},
        {"traceId": "t0", "name": "GET /", "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}]},
        {"traceId": "t1", "name": "chat m", "startTimeUnixNano": "1779460200250000000",
         "attributes": [
          {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
          {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
          {"key": "gen_ai.conversation.id", "value": {"stringValue": "conv"}},
          {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "9"}},
          {"key": "gen_ai.usage.output_tokens", "value": {"intValue": 4}},
          {"key": "user.id", "value": {"stringValue": "eve"}},
          {"key": "gen_ai.system_instructions", "value": {"stringValue": "[{\"type\":\"text\",\"content\":\"be kind\"}]"}},
          {"key": "gen_ai.tool.definitions", "value": {"stringValue": "[{\"type\":\"function\",\"name\":\"ls\",\"parameters\":{}}]"}},
          {"key": "gen_ai.input.messages", "value": {"arrayValue": {"values": [
            {"kvlistValue": {"values": [
              {"key": "role", "value": {"stringValue": "user"}},
              {"key": "parts", "value": {"arrayValue": {"values": [
                {"kvlistValue": {"values": [{"key": "type", "value": {"stringValue": "text"}}, {"key": "content", "value": {"stringValue": "hi"}}]}},
                {"kvlistValue": {"values": [{"key": "type", "value": {"stringValue": "image"}}]}}]}}}]}},
            {"kvlistValue": {"values": [
              {"key": "role", "value": {"stringValue": "assistant"}},
              {"key": "parts", "value": {"arrayValue": {"values": [
                {"kvlistValue": {"values": [{"key": "type", "value": {"stringValue": "tool_call"}}, {"key": "id", "value": {"stringValue": "c1"}}, {"key": "name", "value": {"stringValue": "ls"}},
                  {"key": "arguments", "value": {"kvlistValue": {"values": [{"key": "n", "value": {"intValue": "1"}}, {"key": "deep", "value": {"boolValue": true}}, {"key": "x", "value": {"doubleValue": 0.5}}]}}}]}}]}}}]}},
            {"kvlistValue": {"values": [
              {"key": "role", "value": {"stringValue": "tool"}},
              {"key": "parts", "value": {"arrayValue": {"values": [
                {"kvlistValue": {"values": [{"key": "type", "value": {"stringValue": "tool_call_response"}}, {"key": "id", "value": {"stringValue": "c1"}}, {"key": "response", "value": {"stringValue": "a.go"}}]}}]}}}]}}
          ]}}}
         ]}
      ]
    }]
  }]
}
`

func TestOpenTelemetryExports(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{"over many lines": export, "one line": compact(t, export)} {
		r := one(t, input)
		sameJSON(t, r.Body, `{"model":"m","messages":[
			{"role":"system","content":"be kind"},
			{"role":"user","content":"hi\n[image]"},
			{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"deep\":true,\"n\":1,\"x\":0.5}"}}]},
			{"role":"tool","content":"a.go","tool_call_id":"c1"}],
			"tools":[{"type":"function","function":{"name":"ls","parameters":{}}}]}`)
		line := r.Line
		r.Body, r.Line = nil, 0
		want := logs.Request{
			Source: logs.OpenTelemetry, Time: time.Unix(1779460200, 25e7).UTC(), Method: "POST", Path: "/v1/chat/completions",
			Project: "shop", Session: "conv", User: "eve", Model: "m", Outcome: logs.Outcome{Status: 200, InputTokens: 9, OutputTokens: 4},
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if wantLine := map[string]int{"over many lines": 9, "one line": 1}[name]; line != wantLine {
			t.Errorf("%s: line %d, want %d", name, line, wantLine)
		}
	}
}

const consoleSpan = `{
    "name": "chat m",
    "context": {"trace_id": "0xabc", "span_id": "0x1"},
    "start_time": "2026-05-22T14:30:00.500000Z",
    "status": {"status_code": "ERROR"},
    "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5},
    "events": [
        {"name": "gen_ai.system.message", "attributes": {"content": "be kind"}},
        {"name": "gen_ai.user.message", "attributes": {"content": "hi"}},
        {"name": "gen_ai.assistant.message", "attributes": {"tool_calls": "[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}]"}},
        {"name": "gen_ai.tool.message", "attributes": {"id": "c1", "content": "a.go"}},
        {"name": "gen_ai.choice", "attributes": {"index": 0}}
    ],
    "resource": {"attributes": {"service.name": "shop"}}
}
`

func TestSpansAsSDKsPrintThem(t *testing.T) {
	t.Parallel()
	requests, faults := read(t, consoleSpan+consoleSpan, logs.Limit)
	if len(requests) != 2 || len(faults) != 0 || requests[1].Line != 16 {
		t.Fatalf("%d requests, %v", len(requests), faults)
	}
	r := requests[0]
	sameJSON(t, r.Body, `{"model":"m","messages":[
		{"role":"system","content":"be kind"},{"role":"user","content":"hi"},
		{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
		{"role":"tool","content":"a.go","tool_call_id":"c1"}]}`)
	if r.Session != "0xabc" || r.Status != 500 || r.InputTokens != 5 || r.Project != "shop" || r.Time.Nanosecond() != 5e8 {
		t.Errorf("request is %+v", r)
	}
}

func TestIndexedPromptAttributesAndDetailEvents(t *testing.T) {
	t.Parallel()
	r := one(t, `{"trace_id":"t","attributes":{"llm.request.type":"chat","gen_ai.prompt.0.role":"user","gen_ai.prompt.0.content":"hi",
		"gen_ai.prompt.1.role":"assistant","gen_ai.prompt.1.tool_calls.0.id":"c1","gen_ai.prompt.1.tool_calls.0.name":"ls","gen_ai.prompt.1.tool_calls.0.arguments":"{}",
		"gen_ai.prompt.2.role":"tool","gen_ai.prompt.2.content":"a.go","gen_ai.prompt.2.tool_call_id":"c1"}}`)
	sameJSON(t, r.Body, `{"messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},
		{"role":"tool","content":"a.go","tool_call_id":"c1"}]}`)

	r = one(t, `{"traceId":"t","attributes":[{"key":"gen_ai.request.model","value":{"stringValue":"m"}}],
		"events":[{"name":"gen_ai.client.inference.operation.details","attributes":[{"key":"gen_ai.input.messages","value":{"stringValue":"[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"hi\"},{\"type\":\"tool_call_response\",\"id\":\"c\",\"result\":{\"a\":1}}]}]"}}]}]}`)
	sameJSON(t, r.Body, `{"model":"m","messages":[{"role":"tool","content":"{\"a\":1}","tool_call_id":"c"},{"role":"user","content":"hi"}]}`)
}

func TestSpansWithoutContent(t *testing.T) {
	t.Parallel()
	_, faults := read(t, `{"traceId":"t","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}]}`, logs.Limit)
	if len(faults) != 1 || !errors.Is(faults[0], logs.ErrNoMessages) {
		t.Errorf("errors are %v", faults)
	}
	for _, broken := range []string{
		`{"traceId":"t","attributes":7}`,
		`{"traceId":"t","attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":"[{"}}`,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":7}]}]}]}`,
	} {
		if requests, faults := read(t, broken, logs.Limit); len(faults) != 1 || len(requests) != 0 {
			t.Errorf("%s: %v, %v", broken, requests, faults)
		}
	}
	for _, odd := range []string{`{"resourceSpans":null}`, `{"resourceSpans":[1,{"scopeSpans":{}}]}`, `{"resourceSpans":[{"scopeSpans":[{"spans":[7]}]}]}`} {
		if requests, faults := read(t, odd, logs.Limit); len(faults)+len(requests) != 0 {
			t.Errorf("%s: %v, %v", odd, requests, faults)
		}
	}
}

func TestLangfuseExports(t *testing.T) {
	t.Parallel()
	const generation = `{"id":"o","type":"GENERATION","traceId":"t","startTime":"2026-03-02T09:00:00Z","model":"gpt-5","input":{"messages":[{"role":"user","content":"hi"}]},
		"usageDetails":{"input":40,"input_cached_tokens":60,"output":7},"calculatedTotalCost":0.01}`
	span := `{"id":"s","type":"SPAN","traceId":"t","startTime":"2026-03-02T09:00:00Z"}`
	for name, in := range map[string]string{
		"observations": strings.ReplaceAll(generation, "\n", "") + "\n" + span,
		"a trace":      `{"id":"t","sessionId":"t","observations":[` + generation + `,` + span + `]}`,
	} {
		var got []logs.Request
		for q, err := range logs.Open(strings.NewReader(in)) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			q.Body = []byte(string(q.Body))
			got = append(got, q)
		}
		if len(got) != 1 || got[0].Source != logs.Langfuse || got[0].Session != "t" || got[0].Model != "gpt-5" || string(got[0].Body) != `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}` {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if o := got[0].Outcome; o != (logs.Outcome{Status: 200, InputTokens: 100, CachedTokens: 60, OutputTokens: 7, USD: 0.01}) {
			t.Errorf("%s: outcome %+v", name, o)
		}
	}
	for _, err := range logs.Open(strings.NewReader(`{"type":"GENERATION","traceId":"t","startTime":"2026-03-02T09:00:00Z","input":"[redacted]"}`)) {
		if !errors.Is(err, logs.ErrNoMessages) {
			t.Errorf("without messages: %v", err)
		}
	}
}

func TestHeliconeExports(t *testing.T) {
	t.Parallel()
	in := `{"request_id":"r","request_created_at":"2026-03-02T09:00:00Z","request_path":"https://api.anthropic.com/v1/messages","request_model":"claude-sonnet-4-5","request_user_id":"u",
		"request_body":{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"hi"}]},"response_status":200,"prompt_tokens":100,"prompt_cache_read_tokens":60,"completion_tokens":7,
		"request_properties":{"helicone-session-id":"s"}}` + "\n" + `{"request_id":"r","request_body":null}`
	var got []logs.Request
	var faults []error
	for q, err := range logs.Open(strings.NewReader(in)) {
		if err != nil {
			faults = append(faults, err)
			continue
		}
		got = append(got, q)
	}
	if len(got) != 1 || got[0].Source != logs.Helicone || got[0].Path != "/v1/messages" || got[0].Session != "s" || got[0].User != "u" || got[0].InputTokens != 100 || got[0].CachedTokens != 60 {
		t.Errorf("%+v", got)
	}
	if len(faults) != 1 || !errors.Is(faults[0], logs.ErrNoMessages) {
		t.Errorf("faults %v", faults)
	}
}
