package repair_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/provider/gemini"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// Bodies and what becomes of them, byte for byte; an empty want is not a change.
var bodies = []struct {
	name       string
	format     repairer
	body, want string
}{
	{"white space, order and other members stay", chat.Chat{},
		`{ "n":1e0, "messages" : [ {"role":"user","content":"hi"} , {"content":"a\u0062","role":"assistant"},{"role":"tool","tool_call_id":"x","content":"1"} ],"z":[ ] }`,
		`{ "n":1e0, "messages" : [{"role":"user","content":"hi"},{"content":"a\u0062","role":"assistant"}],"z":[ ] }`},
	{"neighbours of one role stay", chat.Chat{},
		`{"messages":[{"role":"user","name":"a","content":"hi"},{"role":"user","content":"ho"}]}`, ""},
	{"system messages stay where they are", chat.Chat{},
		`{"messages":[{"role":"system","content":""},{"role":"assistant","content":"x"},{"role":"developer","content":"d"},{"role":"user","content":"hi"}]}`, ""},
	{"images are content", chat.Chat{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`, ""},
	{"text before a call stays", chat.Chat{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"so"},{"role":"assistant","tool_calls":[{"id":"x"}]},{"role":"tool","tool_call_id":"x","content":"1"}]}`, ""},
	{"an answer without content goes", chat.Chat{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null},{"role":"assistant","content":null,"audio":{"id":"a"}},{"role":"user","content":" "}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"audio":{"id":"a"}},{"role":"user","content":" "}]}`},
	{"white space alone stays", chat.Chat{}, `{"messages":[{"role":"user","content":" "}]}`, ""},
	{"white space alone stays for its provider to refuse", anthropic.Messages{}, `{"messages":[{"role":"user","content":" "}]}`, ""},
	{"a greeting and two questions stay", anthropic.Messages{},
		`{"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"hi"},{"role":"user","content":"there"}]}`, ""},
	{"an empty text goes and thinking stays", anthropic.Messages{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":""},{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]}`},
	{"thinking and the provider's own tools stay", anthropic.Messages{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1","cache_control":{"type":"ephemeral"}},{"type":"text","text":"on"}]}]}`, ""},
	{"a lost result is an error", anthropic.Messages{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":"go"}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","is_error":true,"content":"[Tool execution was interrupted or lost]"},{"type":"text","text":"go"}]}]}`},
	{"results come before the user's words", anthropic.Messages{},
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"text","text":"on"},{"type":"tool_result","tool_use_id":"x","content":"1"}]}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"},{"type":"text","text":"on"}]}]}`},
	{"items lose orphans and get what is lost", responses.Responses{},
		`{"input":[{"type":"function_call_output","call_id":"z","output":"0"},{"type":"reasoning","id":"r"},{"type":"function_call","call_id":"x"},{"type":"custom_tool_call","call_id":"y"},{"type":"function_call_output","call_id":"x","output":"queued"},{"type":"function_call_output","call_id":"x","output":"1"}]}`,
		`{"input":[{"type":"reasoning","id":"r"},{"type":"function_call","call_id":"x"},{"type":"custom_tool_call","call_id":"y"},{"type":"custom_tool_call_output","call_id":"y","output":"[Tool execution was interrupted or lost]"},{"type":"function_call_output","call_id":"x","output":"1"}]}`},
	{"what the provider keeps is not known", responses.Responses{},
		`{"previous_response_id":"r","input":[{"type":"function_call_output","call_id":"z","output":"0"}]}`, ""},
	{"outputs of calls that are referred to stay", responses.Responses{},
		`{"input":[{"role":"user","content":"hi"},{"type":"item_reference","id":"fc_1"},{"type":"function_call_output","call_id":"x","output":"1"}]}`, ""},
	{"a reference needs no type", responses.Responses{},
		`{"input":[{"role":"user","content":"hi"},{"id":"fc_1"},{"type":"function_call_output","call_id":"x","output":"1"}]}`, ""},
	{"outputs behind a compaction stay", responses.Responses{},
		`{"input":[{"type":"compaction","id":"cmp_1","encrypted_content":"gA"},{"type":"function_call_output","call_id":"x","output":"1"}]}`, ""},
	{"a lost output is made beside references", responses.Responses{},
		`{"input":[{"type":"item_reference","id":"rs_1"},{"type":"function_call","call_id":"x"},{"role":"user","content":"on"}]}`,
		`{"input":[{"type":"item_reference","id":"rs_1"},{"type":"function_call","call_id":"x"},{"type":"function_call_output","call_id":"x","output":"[Tool execution was interrupted or lost]"},{"role":"user","content":"on"}]}`},
	{"sound items stay", responses.Responses{},
		`{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"x"},{"type":"function_call","call_id":"y"},{"type":"function_call_output","call_id":"y","output":"1"},{"type":"function_call_output","call_id":"x","output":[]}]}`, ""},
	{"a text is no history", responses.Responses{}, `{"input":"hi"}`, ""},
	{"Gemini's histories stay", gemini.Generate{}, `{"contents":[{"parts":[]}]}`, ""},
	{"anything else stays", plain.Plain{}, `not JSON`, ""},
}

func TestBodiesKeepWhatNeedsNoRepair(t *testing.T) {
	t.Parallel()
	for _, c := range bodies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := []byte(c.body)
			got, report, err := c.format.Repair(body)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if report.Changed() || &got[0] != &body[0] {
					t.Errorf("changed (%v) to %s", report, got)
				}
				return
			}
			if string(got) != c.want || !report.Changed() {
				t.Errorf("%v\n got %s\nwant %s", report, got, c.want)
			}
		})
	}
}

func TestBrokenBodiesAreReturnedWithAnError(t *testing.T) {
	t.Parallel()
	for _, f := range []repairer{chat.Chat{}, anthropic.Messages{}, responses.Responses{}} {
		body := []byte(`{"messages":[1],"input":[`)
		if got, _, err := f.Repair(body); err == nil || &got[0] != &body[0] {
			t.Errorf("%T: %s, %v", f, got, err)
		}
	}
}

func TestAReportSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	r := repair.Report{Orphans: 1, Moved: 2}
	if got := r.String(); got != "orphans=1, moved=2" || !r.Changed() {
		t.Errorf("got %q", got)
	}
	if r = (repair.Report{}); r.String() != "" || r.Changed() {
		t.Error("nothing is something")
	}
}

func TestPendingResultsSaySo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"pending": true, " [Pending]": true, "Waiting for approval…": true, `{"status":"in_progress","n":1}`: true, "RUNNING": true,
		"": false, "done": false, `{"status":"done"}`: false, `{"status":`: false, "pending changes: 3": false,
		strings.Repeat("pending ", 100): false,
	} {
		if repair.Pending(splice.Quote(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
