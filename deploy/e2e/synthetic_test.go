package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/scripted"
	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/event"
)

// answering is the policy that answers tool loops in the model's place.
func answering(t *testing.T) func(*system.Config) {
	t.Helper()
	return policies(t, `
bundle_version: 1
policies:
  - id: tools
    spec:
      tool: {block_answer: synthetic}
      cycle: {block_answer: synthetic}
`)
}

// ended is what an agent ends with: the answer in which the model asks for no tool.
type ended struct {
	Text   string `json:"text"`
	End    string `json:"end"`
	Model  string `json:"model"`
	Tokens int    `json:"tokens"`
	// Sent is how many requests left.
	Sent int `json:"sent"`
}

// looping is a model that asks for the same call forever.
func looping(r scripted.Request) scripted.Reply {
	return scripted.Reply{ToolCalls: []scripted.ToolCall{{ID: fmt.Sprintf("call_%d", r.Number), Name: "weather", Arguments: `{"city":"Oslo"}`}}}
}

// stops are the reasons by which each API ends an answer that is whole.
var stops = map[string]string{"chat": "stop", "responses": "completed", "anthropic": "end_turn", "gemini": "STOP"}

// checkEnded expects the end of an agent that was stopped before its sixth call.
func checkEnded(t *testing.T, sdk string, got ended, upstream served) {
	t.Helper()
	const want = "Stopped by Unloop: the same tool call (weather) with the same result 5 times (recursive_loop_detected)."
	if !strings.HasPrefix(got.Text, want) || !strings.Contains(got.Text, "unloop loops release ") {
		t.Errorf("the agent ends with %q", got.Text)
	}
	got.Text = ""
	if diff := cmp.Diff(ended{End: stops[sdk], Model: "scripted-1", Sent: 6}, got); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	if n := len(upstream.Requests()); n != 5 {
		t.Errorf("the upstream saw %d requests, want 5", n)
	}
}

func TestNodeAgentsThatLoopEndWithAnAnswer(t *testing.T) {
	t.Parallel()
	for sdk := range broken {
		for _, task := range []string{"agent", "agentStreamed"} {
			t.Run(sdk+", "+task, func(t *testing.T) {
				t.Parallel()
				upstream := serve(t, looping)
				var got ended
				if err := json.Unmarshal([]byte(runNode(t, start(t, upstream.url, answering(t)).URL(), sdk, task, "How is the weather?")), &got); err != nil {
					t.Fatal(err)
				}
				checkEnded(t, sdk, got, upstream)
			})
		}
	}
}

// in puts members before the others of a body.
func in(body, members string) string { return "{" + members + "," + strings.TrimPrefix(body, "{") }

func TestAnswerInTheModelsPlaceSaysSoInHeadersAndEvents(t *testing.T) {
	t.Parallel()
	s := start(t, serve(t, greeting).url, answering(t))
	nc := connect(t, s)
	found, err := nc.SubscribeSync("loop.detected.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	a := send(t, s.URL(), chat(toolSession(5, always("{}"), always("same"))))
	want := map[string]string{
		"X-Loop-Action": "reject", "X-Loop-Answer": "synthetic", "X-Loop-Reason": "loop_detected", "X-Loop-Detector": "tool", "X-Loop-Count": "5",
		"Retry-After": "", "X-Should-Retry": "", "Content-Type": "application/json",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = a.header.Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" || a.status != http.StatusOK {
		t.Errorf("status %d (-want +got):\n%s", a.status, diff)
	}
	msg, err := found.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	e, err := event.Parse(msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	if e.Data.Action != "reject" || e.Data.Answer != "synthetic" || e.Data.Findings[0].Answer != "synthetic" || e.Data.Saved.Requests != 1 {
		t.Errorf("event %+v", e)
	}
	if n := metric(t, s, `unloop_gateway_synthetic_answers_total{format="openai-chat"}`); n != 1 {
		t.Errorf("%v answers counted, want 1", n)
	}
	streamed := send(t, s.URL(), chat(in(toolSession(5, always("{}"), always("same")), `"stream":true`)))
	if kind := streamed.header.Get("Content-Type"); kind != "text/event-stream; charset=utf-8" || !strings.HasSuffix(string(streamed.body), "data: [DONE]\n\n") {
		t.Errorf("streamed: %s, %s", kind, streamed.body)
	}
	if strings.Contains(string(a.body), "package main") || strings.Contains(string(a.body), "same\"") {
		t.Errorf("the answer quotes a result: %s", a.body)
	}
}

// What was said in the model's place changes nothing when it comes back: the agent
// that repeats itself is still blocked, and a human may go on.
func TestAnswerInTheModelsPlaceIsNoEvidence(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]struct {
		messages string
		status   string
	}{
		"alone":                  {``, "200 reject"},
		"and the same call":      {`,{"role":"assistant","tool_calls":[{"id":"again","type":"function","function":{"name":"read_file","arguments":"{}"}}]},{"role":"tool","tool_call_id":"again","content":"same"}`, "200 reject"},
		"and another call":       {`,{"role":"assistant","tool_calls":[{"id":"again","type":"function","function":{"name":"list","arguments":"{}"}}]},{"role":"tool","tool_call_id":"again","content":"a.go"}`, "200 "},
		"and a human":            {`,{"role":"user","content":"Look elsewhere."}`, "200 "},
		"and what an agent adds": {`,{"role":"user","content":"<system-reminder>Go on.</system-reminder>"}`, "200 reject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, serve(t, greeting).url, answering(t)).URL()
			var a answered
			for n := 1; n <= 5; n++ {
				a = send(t, url, chat(toolSession(n, always("{}"), always("same"))))
			}
			var said struct {
				Choices []struct{ Message json.RawMessage }
			}
			if err := json.Unmarshal(a.body, &said); err != nil || a.header.Get("X-Loop-Answer") != "synthetic" {
				t.Fatalf("%v: %s", err, a.body)
			}
			body, found := strings.CutSuffix(toolSession(5, always("{}"), always("same")), `],"model":"m"}`)
			if !found {
				t.Fatal("the session ends otherwise")
			}
			a = send(t, url, chat(body+","+string(said.Choices[0].Message)+more.messages+`],"model":"m"}`))
			if got := fmt.Sprint(a.status, " ", a.header.Get("X-Loop-Action")); got != more.status {
				t.Errorf("got %s, want %s", got, more.status)
			}
		})
	}
}

// An answer in the model's place is no use where data is wanted, where the provider
// keeps the history, and where the action is a break: those get the error.
func TestWhatCannotBeAnsweredInTheModelsPlaceIsRefused(t *testing.T) {
	t.Parallel()
	session := toolSession(5, always("{}"), always("same"))
	items := `"previous_response_id":"resp_1","model":"m","input":[`
	for n := range 5 {
		items += fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"read","arguments":"{}"},{"type":"function_call_output","call_id":"c%d","output":"same"},`, n, n)
	}
	kept := chat("{" + strings.TrimSuffix(items, ",") + "]}")
	kept.path = "/v1/responses"
	for name, c := range map[string]struct {
		call   call
		policy string
		action string
	}{
		"data":                 {chat(in(session, `"response_format":{"type":"json_object"}`)), "tool: {block_answer: synthetic}", "reject"},
		"a kept history":       {kept, "tool: {block_answer: synthetic}", "reject"},
		"a break":              {chat(session), "tool: {block_answer: synthetic, block_action: break}", "break"},
		"the other detector":   {chat(session), "{tool: {}, cycle: {block_answer: synthetic}}", "reject"},
		"without a word of it": {chat(session), "tool: {}", "reject"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, serve(t, greeting).url, policies(t, "bundle_version: 1\npolicies:\n  - id: tools\n    spec:\n      "+c.policy+"\n")).URL()
			a := send(t, url, c.call)
			if a.status != http.StatusTooManyRequests || a.header.Get("X-Loop-Action") != c.action || a.header.Get("X-Loop-Answer") != "" {
				t.Errorf("status %d, headers %v: %s", a.status, a.header, a.body)
			}
		})
	}
}

// Gemini streams as events, or as one list.
func TestGeminiStreamsAreAnsweredInTheFormThatTheyAskFor(t *testing.T) {
	t.Parallel()
	contents := `{"role":"user","parts":[{"text":"go"}]}`
	for range 5 {
		contents += `,{"role":"model","parts":[{"functionCall":{"name":"read","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"same"}}}]}`
	}
	for query, begins := range map[string]string{"": "[{", "?alt=json": "[{", "?alt=sse": "data: {", "?%24alt=sse": "data: {"} {
		upstream := serve(t, greeting)
		c := chat(`{"contents":[` + contents + `]}`)
		c.path = "/v1beta/models/m-1:streamGenerateContent" + query
		a := send(t, start(t, upstream.url, answering(t)).URL(), c)
		if a.status != http.StatusOK || a.header.Get("X-Loop-Answer") != "synthetic" || !strings.HasPrefix(string(a.body), begins) ||
			!strings.Contains(string(a.body), `"modelVersion":"m-1"`) {
			t.Errorf("%q: status %d, %s", query, a.status, a.body)
		}
	}
}
