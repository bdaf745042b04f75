package responses_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
)

// items are a call as an answer writes it, spelled otherwise by a client, and its
// result.
var items = map[string][3]string{
	"a function": {
		`{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a.go\",\"n\":1}","call_id":"c1","name":"read"}`,
		`{"type":"function_call","call_id":"c1","name":"read","arguments":"{ \"n\": 1.0, \"path\": \"\\u0061.go\" }"}`,
		`{"type":"function_call_output","call_id":"c1","output":"package a"}`,
	},
	"a custom tool": {
		`{"id":"ctc_1","type":"custom_tool_call","call_id":"c1","name":"patch","input":"*** Begin"}`,
		`{"type":"custom_tool_call","call_id":"c1","name":"patch","input":"*** Begin"}`,
		`{"type":"custom_tool_call_output","call_id":"c1","output":"package a"}`,
	},
	"a shell of the provider's kind": {
		`{"id":"lsh_1","type":"local_shell_call","status":"completed","call_id":"c1","action":{"type":"exec","command":["ls"],"env":{}}}`,
		`{"type":"local_shell_call","call_id":"c1","action":{"env":{},"command":["ls"],"type":"exec"},"id":"lsh_1"}`,
		`{"type":"local_shell_call_output","call_id":"c1","output":"package a"}`,
	},
}

// tools are offered in every request, so that what is not is known.
const tools = `"tools":[{"type":"function","name":"read"}],`

// A round is the same whether its call stands in the request, or only in the
// answer that the request goes on from.
func TestCallsOfAnAnswerAreThoseOfTheHistory(t *testing.T) {
	t.Parallel()
	for name, it := range items {
		whole, _ := parse(t, `{`+tools+`"input":[`+it[1]+`,`+it[2]+`]}`).Transcript.History(provider.Rules{})
		call, _, ok := responses.Called([]byte(it[0]))
		if !ok {
			t.Errorf("%s: no call", name)
			continue
		}
		delta := parse(t, `{`+tools+`"previous_response_id":"resp_1","input":[`+it[2]+`,{"role":"user","content":"go on"}]}`)
		if !delta.Transcript.Strays() {
			t.Errorf("%s: its result has no stray", name)
		}
		other := provider.ToolCall{Tool: "other", ID: call.Key}
		with, open := delta.Transcript.Precede([]provider.ToolCall{call, other})
		if len(open) != 1 || open[0].Tool != "other" {
			t.Errorf("%s: open are %+v", name, open)
		}
		got, _ := with.History(provider.Rules{})
		if len(got) != 2 || got[1].Human.IsZero() {
			t.Fatalf("%s: history is %+v; want a round and a human message", name, got)
		}
		if diff := cmp.Diff(whole, got[:1]); diff != "" {
			t.Errorf("%s (-in the request +in the answer before):\n%s", name, diff)
		}
	}
}

func TestWhatTheClientNeedNotAnswerIsNoCall(t *testing.T) {
	t.Parallel()
	for _, item := range []string{
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}`,
		`{"type":"reasoning","id":"rs_1","summary":[]}`,
		`{"type":"mcp_call","id":"mcp_1","name":"search","arguments":"{}","output":"found"}`,
		`{"type":"function_call_output","call_id":"c1","output":"x"}`,
		`{"type":"function_call","name":"read","arguments":"{}"}`,
		`{"type":"function_call","call_id":"c1","call_id":"c2","name":"read","arguments":"{}"}`,
		`{"type":"function_call"`, `[]`, `{}`, ``,
	} {
		if call, _, ok := responses.Called([]byte(item)); ok {
			t.Errorf("%s: %+v", item, call)
		}
	}
}

// A result whose call is in the request belongs to it, whatever was kept.
func TestResultsOfCallsInTheRequestAreNoStrays(t *testing.T) {
	t.Parallel()
	it := items["a function"]
	p := parse(t, `{"previous_response_id":"resp_1","input":[`+it[1]+`,`+it[2]+`]}`)
	if p.Transcript.Strays() {
		t.Error("the result has a call")
	}
	call, _, _ := responses.Called([]byte(it[0]))
	with, open := p.Transcript.Precede([]provider.ToolCall{call})
	if len(open) != 1 {
		t.Errorf("open are %+v", open)
	}
	if got, _ := with.History(provider.Rules{}); len(got) != 1 {
		t.Errorf("history is %+v", got)
	}
	for _, pending := range []string{`"status":"in_progress",`, ""} {
		p := parse(t, `{"previous_response_id":"resp_1","input":[{`+pending+`"type":"function_call_output","call_id":"c1","output":"x"}]}`)
		if got := p.Transcript.Strays(); got == (pending != "") {
			t.Errorf("%q: strays %v", pending, got)
		}
	}
}

// A request that refers to a call is the same as one that has the call in it.
func TestReferencesStandForCalls(t *testing.T) {
	t.Parallel()
	for name, it := range items {
		call, id, ok := responses.Called([]byte(it[0]))
		if !ok {
			t.Fatalf("%s: no call", name)
		}
		const user = `{"role":"user","content":"go"}`
		inline := parse(t, `{`+tools+`"input":[`+user+`,`+it[1]+`,`+it[2]+`]}`)
		for _, reference := range []string{`{"type":"item_reference","id":"` + id + `"}`, `{"id":"` + id + `"}`} {
			body := `{` + tools + `"input":[` + user + `,{"type":"item_reference","id":"rs_1"},` + reference + `,` + it[2] + `]}`
			unknown := parse(t, body)
			if diff := cmp.Diff([]string{id}, unknown.References); diff != "" || !unknown.Referable || inline.Referable {
				t.Errorf("%s: referable %v and %v, references %s", name, unknown.Referable, inline.Referable, diff)
			}
			known, err := responses.Responses{}.Parse([]byte(body), provider.Options{Tail: 3, Items: 20, Known: map[string]provider.ToolCall{id: call}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(inline.Tail, known.Tail); diff != "" || len(known.References) > 0 {
				t.Errorf("%s: the tail differs (-in the request +referred to):\n%s", name, diff)
			}
			want, _ := inline.Transcript.History(provider.Rules{})
			got, _ := known.Transcript.History(provider.Rules{})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-in the request +referred to):\n%s", name, diff)
			}
		}
	}
}
