package anthropic_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/anthropic"
)

func parse(t *testing.T, body string) *provider.Prompt {
	t.Helper()
	p, err := anthropic.Messages{}.Parse([]byte(body), provider.Options{Tail: 3, Items: 20})
	if err != nil || p == nil {
		t.Fatalf("%s: %v, %v", body, p, err)
	}
	return p
}

func TestKeysAreReadWhereAnthropicHasThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{"X-Api-Key": {"sk-ant-1"}, "Authorization": {"Bearer other"}}, "sk-ant-1"},
		{http.Header{"Authorization": {"Bearer oauth"}}, "oauth"},
		{http.Header{"Api-Key": {"azure"}}, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/messages?key=no", nil)
		r.Header = c.header
		if got := (anthropic.Messages{}).Key(r); got != c.want {
			t.Errorf("%v: %q, want %q", c.header, got, c.want)
		}
	}
}

func TestUsersAndSessionsAreTakenApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, user, session string }{
		{"u-1", "u-1", ""},
		{"user_0a_account_7c_session_5d-1", "user_0a_account_7c", "5d-1"},
		{`{"device_id":"d","account_uuid":"a","session_id":"s"}`, "d/a", "s"},
		{`{"device_id":"d"}`, `{"device_id":"d"}`, ""},
		{`{broken`, `{broken`, ""},
		{"my_session_1", "my_session_1", ""},
	} {
		id, err := json.Marshal(c.id)
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, `{"metadata":{"user_id":`+string(id)+`},"messages":[{"role":"user","content":"hi"}]}`)
		if p.User != c.user || p.Session != c.session {
			t.Errorf("%s: user %q, session %q", c.id, p.User, p.Session)
		}
	}
	p := parse(t, `{"metadata":{"session_id":"s-1","user_id":"u"},"messages":[{"role":"user","content":"hi"}]}`)
	if p.User != "u" || p.Session != "s-1" {
		t.Errorf("user %q, session %q", p.User, p.Session)
	}
}

// same lists bodies that say the same as the first of their row.
var same = map[string][]string{
	"a string is a text block": {
		`{"system":"s","messages":[{"role":"user","content":"hi"}]}`,
		`{"system":[{"type":"text","text":"s"}],"messages":[{"content":[{"text":"hi","type":"text"}],"role":"user"}]}`,
		`{"messages":[{"role":"user","content":"hi"}],"system":"s"}`,
	},
	"cache marks, ids and thinking have no part": {
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1,"y":[]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"},{"input":{"y":[],"x":1.0},"type":"tool_use","id":"b","name":"f"}]},{"role":"user","content":[{"content":[{"type":"text","text":"r"}],"cache_control":{"type":"ephemeral"},"tool_use_id":"b","type":"tool_result"}]}]}`,
	},
	"images count by their content": {
		`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"cache_control":{},"source":{"url":"u","type":"url"},"type":"image"}]}]}`,
	},
	"the client's billing line is no system prompt": {
		`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"hi"}]}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=1a2b;"},{"type":"text","text":"s"}],"messages":[{"role":"user","content":"hi"}]}`,
	},
}

func TestBodiesThatSayTheSameHaveOneTail(t *testing.T) {
	t.Parallel()
	for name, bodies := range same {
		first := parse(t, bodies[0])
		for _, body := range bodies[1:] {
			p := parse(t, body)
			if diff := cmp.Diff(first.Tail, p.Tail); diff != "" || p.Opening != first.Opening || p.Transcript.Agent() != first.Transcript.Agent() {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestOtherContentIsAnotherMessage(t *testing.T) {
	t.Parallel()
	seen := map[provider.Message]string{}
	for _, content := range []string{
		`"hi"`, `[{"type":"text","text":"hi"},{"type":"image","source":"a"}]`, `[{"type":"text","text":"hi"},{"type":"image","source":"b"}]`,
		`[{"type":"tool_result","tool_use_id":"a","content":"hi"}]`, `[{"type":"tool_result","tool_use_id":"a","content":"hi","is_error":true}]`,
		`[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":"a"}]}]`,
		`[{"type":"tool_use","id":"a","name":"f","input":{}}]`, `[{"type":"tool_use","id":"a","name":"f","input":{"x":1}}]`, `[{"type":"tool_use","id":"a","name":"g","input":{}}]`,
	} {
		m := parse(t, `{"messages":[{"role":"user","content":`+content+`}]}`).Tail[0]
		if other, known := seen[m]; known {
			t.Errorf("%s and %s are one", content, other)
		}
		seen[m] = content
	}
}

func TestTheProvidersOwnToolsBringTheirResults(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"f"}],"messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"u"}]},{"type":"mcp_tool_use","id":"m","name":"else","input":{}},{"type":"text","text":"so"}]}]}`)
	items, _ := p.Transcript.History(provider.Rules{})
	if len(items) != 2 || len(items[1].Calls) != 2 {
		t.Fatalf("%+v", items)
	}
	search, mcp := items[1].Calls[0], items[1].Calls[1]
	if search.Tool != "web_search" || search.Result.IsZero() || search.NotOffered || mcp.NotOffered || !mcp.Result.IsZero() {
		t.Errorf("%+v, %+v", search, mcp)
	}
}

func TestResultsFailWhereTheyAreMarkedOrSaySo(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]bool{
		`"content":"Error: no such file"`:                   true,
		`"content":"four apples"`:                           false,
		`"is_error":true`:                                   true,
		`"is_error":true,"content":"four apples"`:           true,
		`"is_error":false,"content":"Error: said a file"`:   false,
		`"content":"Error: no such file","is_error":null`:   true,
		`"content":[{"type":"text","text":"exit code: 2"}]`: true,
	} {
		p := parse(t, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",`+result+`}]}]}`)
		items, _ := p.Transcript.History(provider.Rules{})
		if c := items[0].Calls[0]; c.Failed != want || c.Class.IsZero() == want || c.Result.IsZero() {
			t.Errorf("%s: %+v", result, c)
		}
	}
}

func TestErrorsHaveAnthropicsNames(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 502: "api_error", 503: "api_error", 504: "timeout_error",
	} {
		got := string(anthropic.Other{}.Refusal(provider.Refusal{Status: status, Code: "c", Message: "m"}))
		if got != `{"type":"error","error":{"type":"`+want+`","message":"m","code":"c"}}` {
			t.Errorf("%d: %s", status, got)
		}
	}
}

func TestHintsInEachFormOfTheSystemPrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, position, want string }{
		{`{ "messages":[]}`, "head", `{"system":"stop", "messages":[]}`},
		{`{"system":"old","messages":[]}`, "head", `{"system":"stop\n\nold","messages":[]}`},
		{`{"system":"","messages":[]}`, "head", `{"system":"stop","messages":[]}`},
		{`{"system":null,"messages":[]}`, "head", `{"system":"stop","messages":[]}`},
		{`{"system":[ ],"messages":[]}`, "head", `{"system":[ {"type":"text","text":"stop"}],"messages":[]}`},
		{`{"system":[{"type":"text","text":"a"} ]}`, "head", `{"system":[{"type":"text","text":"a"} ,{"type":"text","text":"stop"}]}`},
		{`{"system":{}}`, "head", ""},
		{`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"x"}]}`, "result", `{"messages":[{"role":"user","content":"hi\n\nstop"},{"role":"assistant","content":"x"}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`, "result", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"stop"}]}]}`},
		{`{"messages":[{"role":"assistant","content":"x"}]}`, "result", ""},
		{`{"messages":"x"}`, "result", ""},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","caller":{"type":"code_execution"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`, "result", ""},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","caller":{"type":"direct","n":1}}]},{"role":"user","content":"hi"}]}`, "result", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","caller":{"type":"direct","n":1}}]},{"role":"user","content":"hi\n\nstop"}]}`},
	} {
		got, err := anthropic.Messages{}.Hint([]byte(c.body), "stop", c.position)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", c.body, got, err)
		}
	}
}

// Sets of tools name none of theirs, and tools may be added in mid-conversation.
func TestToolsOfSetsAreOffered(t *testing.T) {
	t.Parallel()
	const called = `{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"scroll","toolset_name":"computer","input":{}}]}`
	for body, want := range map[string]bool{
		`{"tools":[{"name":"read"}],"messages":[` + called + `]}`:                                                                                                                         true,
		`{"tools":[{"name":"read"},{"type":"computer_toolset_20260801"}],"messages":[` + called + `]}`:                                                                                    false,
		`{"tools":[{"name":"read"},{"type":"mcp_toolset","mcp_server_name":"m"}],"messages":[` + called + `]}`:                                                                            false,
		`{"tools":[{"name":"read"}],"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"scroll"}}}]},` + called + `]}`: false,
	} {
		history, _ := parse(t, body).Transcript.History(provider.Rules{})
		if got := history[len(history)-1].Calls[0].NotOffered; got != want {
			t.Errorf("%s: not offered is %v", body, got)
		}
	}
}
