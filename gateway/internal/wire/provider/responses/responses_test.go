package responses_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
	"github.com/unloop/unloop/schemas/fingerprint"
)

func parse(t *testing.T, body string) *provider.Prompt {
	t.Helper()
	p, err := responses.Responses{}.Parse([]byte(body), provider.Options{Tail: 3, Items: 20})
	if err != nil || p == nil {
		t.Fatalf("%s: %v, %v", body, p, err)
	}
	return p
}

func TestWhatTheProviderKeepsIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body, session, previous string
		delta                   bool
	}{
		{`{"input":"hi"}`, "", "", false},
		{`{"input":"hi","previous_response_id":null,"conversation":null}`, "", "", false},
		{`{"input":"hi","previous_response_id":"resp_1"}`, "", "resp_1", true},
		{`{"conversation":"conv_1","input":"hi","metadata":{"session_id":"s"}}`, "conv_1", "", true},
		{`{"conversation":{"id":"conv_1"},"input":"hi"}`, "conv_1", "", true},
		{`{"input":"hi","metadata":{"session_id":"s"}}`, "s", "", false},
	} {
		p := parse(t, c.body)
		if p.Session != c.session || p.Previous != c.previous || p.Delta != c.delta || p.Opening.IsZero() != c.delta {
			t.Errorf("%s: %+v", c.body, p)
		}
	}
}

func TestAStringIsAMessageOfTheUser(t *testing.T) {
	t.Parallel()
	first := parse(t, `{"instructions":"s","input":"hi"}`)
	for _, body := range []string{
		`{"input":[{"role":"user","content":"hi"}],"instructions":"s"}`,
		`{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}],"id":"msg_1","status":"completed"}],"instructions":"s"}`,
		`{"input":[{"role":"developer","content":"s"},{"role":"user","content":"hi"}]}`,
	} {
		p := parse(t, body)
		if diff := cmp.Diff(first.Tail, p.Tail); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestStoredPromptsArePrompts(t *testing.T) {
	t.Parallel()
	a, b := parse(t, `{"prompt":{"id":"p1","variables":{"x":"1"}}}`), parse(t, `{"prompt":{"id":"p2","variables":{"x":"1"}}}`)
	if len(a.Tail) != 1 || a.Tail[0] == b.Tail[0] {
		t.Errorf("%+v, %+v", a.Tail, b.Tail)
	}
}

func TestItemsOfAnyKindAreRead(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"tools":[{"type":"function","name":"f"},{"type":"web_search"}],"input":[
		{"role":"user","content":"hi"},
		{"type":"reasoning","id":"rs_1","encrypted_content":"x"},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"so","annotations":[]}]},
		{"type":"function_call","call_id":"a","id":"fc_1","name":"f","arguments":"{}"},
		{"type":"function_call","call_id":"b","name":"f","arguments":"{\"n\":2}"},
		{"type":"function_call_output","call_id":"a","output":"1"},
		{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"2"},{"type":"input_image","image_url":"u"}]},
		{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},
		{"type":"mcp_call","id":"mcp_1","name":"m","server_label":"l","arguments":"{}","output":"done","error":null},
		{"type":"custom_tool_call","call_id":"c","name":"g","input":"text"},
		{"type":"custom_tool_call_output","call_id":"c","status":"in_progress","output":"…"},
		{"type":"local_shell_call","call_id":"d","action":{"type":"exec","command":["ls"]}},
		{"type":"local_shell_call_output","call_id":"d","output":"{}"},
		{"type":"item_reference","id":"x"}]}`)
	items, _ := p.Transcript.History(provider.Rules{})
	type call struct {
		tool                 string
		answered, notOffered bool
	}
	var got [][]call
	for _, it := range items {
		var round []call
		for _, c := range it.Calls {
			round = append(round, call{c.Tool, !c.Result.IsZero(), c.NotOffered})
		}
		got = append(got, round)
	}
	want := [][]call{nil, {{"f", true, false}, {"f", true, false}},
		{{"web_search", false, false}, {"m", true, false}, {"g", false, true}}, {{"local_shell", true, false}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(call{})); diff != "" {
		t.Error(diff)
	}
}

func TestHintsAreInstructionsOrFollowTheNewestItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, position, want string }{
		{`{"input":"hi"}`, "head", `{"instructions":"stop","input":"hi"}`},
		{`{"input":"hi","instructions":null}`, "head", `{"input":"hi","instructions":"stop"}`},
		{`{"input":"hi","instructions":"old"}`, "head", `{"input":"hi","instructions":"stop\n\nold"}`},
		{`{"input":"hi","instructions":[1]}`, "head", ""},
		{`{"input":"hi"}`, "result", `{"input":"hi\n\nstop"}`},
		{`{"input":[{"role":"user","content":[]},{"type":"reasoning"}]}`, "result", `{"input":[{"role":"user","content":[{"type":"input_text","text":"stop"}]},{"type":"reasoning"}]}`},
		{`{"input":[{"type":"function_call_output","output":"1"}]}`, "result", `{"input":[{"type":"function_call_output","output":"1\n\nstop"}]}`},
		{`{"input":[{"role":"user","content":"x"},{"type":"computer_call_output","output":{}}]}`, "result", ""},
		{`{"input":[]}`, "result", ""},
	} {
		got, err := responses.Responses{}.Hint([]byte(c.body), "stop", c.position)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", c.body, got, err)
		}
	}
}

// Calls of the provider's own tools are told apart by what they ask, wherever the item
// has it, and what they brought is their result.
func TestHostedCallsAreToldApart(t *testing.T) {
	t.Parallel()
	for name, items := range map[string][2]string{
		"file search":      {`{"type":"file_search_call","id":"fs_1","queries":["a"],"results":[{"text":"x"}]}`, `{"type":"file_search_call","id":"fs_2","queries":["b"],"results":[{"text":"x"}]}`},
		"code":             {`{"type":"code_interpreter_call","id":"ci_1","code":"a()","outputs":[{"type":"logs","logs":"x"}]}`, `{"type":"code_interpreter_call","id":"ci_2","code":"b()","outputs":[{"type":"logs","logs":"x"}]}`},
		"web search":       {`{"type":"web_search_call","id":"ws_1","action":{"type":"search","query":"a"}}`, `{"type":"web_search_call","id":"ws_2","action":{"type":"search","query":"b"}}`},
		"computer":         {`{"type":"computer_call","id":"cu_1","call_id":"c1","action":{"type":"click","x":1,"y":1}}`, `{"type":"computer_call","id":"cu_2","call_id":"c2","action":{"type":"click","x":2,"y":1}}`},
		"computer, batch":  {`{"type":"computer_call","id":"cu_1","call_id":"c1","actions":[{"type":"click","x":1,"y":1}]}`, `{"type":"computer_call","id":"cu_2","call_id":"c2","actions":[{"type":"click","x":2,"y":1}]}`},
		"shell":            {`{"type":"shell_call","id":"sh_1","call_id":"c1","action":{"commands":["ls a"]}}`, `{"type":"shell_call","id":"sh_2","call_id":"c2","action":{"commands":["ls b"]}}`},
		"patch":            {`{"type":"apply_patch_call","call_id":"c1","operation":{"type":"delete_file","path":"a"}}`, `{"type":"apply_patch_call","call_id":"c2","operation":{"type":"delete_file","path":"b"}}`},
		"search for tools": {`{"type":"tool_search_call","call_id":"c1","arguments":{"query":"a"}}`, `{"type":"tool_search_call","call_id":"c2","arguments":{"query":"b"}}`},
	} {
		keys := map[fingerprint.Digest]bool{}
		for _, item := range items {
			history, _ := parse(t, `{"input":[`+item+`]}`).Transcript.History(provider.Rules{})
			if len(history) != 1 || len(history[0].Calls) != 1 {
				t.Fatalf("%s: %+v", name, history)
			}
			call := history[0].Calls[0]
			keys[call.Key] = true
			if finished := strings.Contains(item, "results") || strings.Contains(item, "outputs"); call.Result.IsZero() == finished {
				t.Errorf("%s: the result is %v", name, call.Result)
			}
		}
		if len(keys) != 2 {
			t.Errorf("%s: two calls are one", name)
		}
	}
}

// Tools that a request need not list at its top are offered too.
func TestToolsOfNamespacesAndSearchesAreOffered(t *testing.T) {
	t.Parallel()
	const called = `{"type":"function_call","call_id":"c","name":"refund","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"ok"}`
	for body, want := range map[string]bool{
		`{"tools":[{"type":"function","name":"read"}],"input":[` + called + `]}`:                                                                                                                                                    true,
		`{"tools":[{"type":"namespace","name":"crm","description":"d","tools":[{"type":"function","name":"refund"}]}],"input":[` + called + `]}`:                                                                                    false,
		`{"tools":[{"type":"namespace","name":"crm","description":"d","tools":[{"type":"function","name":"other"}]}],"input":[` + called + `]}`:                                                                                     true,
		`{"tools":[{"type":"function","name":"read"},{"type":"tool_search"}],"input":[` + called + `]}`:                                                                                                                             false,
		`{"tools":[{"type":"function","name":"read"}],"input":[{"type":"additional_tools","tools":[{"type":"function","name":"refund"}]},` + called + `]}`:                                                                          false,
		`{"tools":[{"type":"function","name":"read"}],"input":[{"type":"tool_search_call","call_id":"s","arguments":{}},{"type":"tool_search_output","call_id":"s","tools":[{"type":"function","name":"refund"}]},` + called + `]}`: false,
	} {
		history, _ := parse(t, body).Transcript.History(provider.Rules{})
		if got := history[len(history)-1].Calls[0].NotOffered; got != want {
			t.Errorf("%s: not offered is %v", body, got)
		}
	}
}
