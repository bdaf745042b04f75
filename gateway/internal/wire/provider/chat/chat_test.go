package chat_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
)

func parse(t *testing.T, body string) *provider.Prompt {
	t.Helper()
	p, err := chat.Chat{}.Parse([]byte(body), provider.Options{Tail: 3, Items: 20, Path: "/openai/deployments/gpt-x/chat/completions"})
	if err != nil || p == nil {
		t.Fatalf("%s: %v, %v", body, p, err)
	}
	return p
}

func TestKeysAreReadWhereOpenAIAndAzureHaveThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{"Authorization": {"bearer sk-1"}, "X-Api-Key": {"noise"}}, "sk-1"},
		{http.Header{"Api-Key": {"azure"}}, "azure"},
		{http.Header{"Authorization": {"Basic dTpw"}}, "Basic dTpw"},
		{http.Header{}, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		r.Header = c.header
		if got := (chat.Chat{}).Key(r); got != c.want {
			t.Errorf("%v: %q, want %q", c.header, got, c.want)
		}
	}
}

func TestUserSessionModelAndStreamAreRead(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"stream":true,"user":"u","metadata":{"user_id":"m","session_id":"s"},"messages":[{"role":"user","content":"hi"}],"safety_identifier":"safe"}`)
	if p.User != "safe" || p.Session != "s" || !p.Stream || p.Model != "gpt-x" || p.Delta {
		t.Errorf("%+v", p)
	}
	if p = parse(t, `{"model":"m","user":"u","metadata":{"user_id":"m"},"messages":[{"role":"user","content":"hi"}]}`); p.User != "u" || p.Model != "m" {
		t.Errorf("%+v", p)
	}
}

// same lists bodies that say the same as the first of their row.
var same = map[string][]string{
	"a string is a list of one text": {
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"Hi "}]}`,
		`{"messages":[{"content":[{"type":"text","text":"s"}],"role":"developer"},{"content":[{"text":"hi","type":"text","cache_control":{}}],"role":"user"}]}`,
	},
	"ids, reasoning and null have no part": {
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]}`,
		`{"messages":[{"role":"assistant","refusal":null,"reasoning_content":"hm","tool_calls":[{"function":{"arguments":" {\"x\":1.0}","name":"f"},"id":"b"}]},{"tool_call_id":"b","content":[{"type":"text","text":"r"}],"role":"tool"}]}`,
	},
}

func TestBodiesThatSayTheSameHaveOneTail(t *testing.T) {
	t.Parallel()
	for name, bodies := range same {
		first := parse(t, bodies[0])
		for _, body := range bodies[1:] {
			if diff := cmp.Diff(first.Tail, parse(t, body).Tail); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestOtherContentIsAnotherMessage(t *testing.T) {
	t.Parallel()
	seen := map[provider.Message]string{}
	for _, m := range []string{
		`{"role":"user","content":"hi"}`, `{"role":"assistant","content":"hi"}`, `{"role":"user","name":"bob","content":"hi"}`, `{"role":"tool","content":"hi"}`,
		`{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"a"}}]}`,
		`{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"b"}}]}`,
		`{"role":"assistant","content":"hi","refusal":"no"}`,
		`{"role":"assistant","content":"hi","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"assistant","content":"hi","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"f","arguments":"{}"}}]}`,
	} {
		digest := parse(t, `{"messages":[`+m+`]}`).Tail[0]
		digest.Text = [16]byte{}
		if other, known := seen[digest]; known {
			t.Errorf("%s and %s are one", m, other)
		}
		seen[digest] = m
	}
}

func TestOldFunctionCallsAreRounds(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"functions":[{"name":"f"}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
		{"role":"function","name":"f","content":"1"},{"role":"assistant","function_call":{"name":"g","arguments":"not JSON"}}]}`)
	items, _ := p.Transcript.History(provider.Rules{})
	if len(items) != 3 || items[1].Calls[0].Result.IsZero() || items[1].Calls[0].NotOffered || !items[2].Calls[0].NotOffered || !items[2].Calls[0].Result.IsZero() {
		t.Errorf("%+v", items)
	}
}

func TestToolsOfAnyKindAreCalls(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"tools":[{"type":"custom","custom":{"name":"sql"}}],"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"sql","input":"select 1"}},
		{"id":"b","function":{"name":"sql","arguments":{"x":1}}},7]},{"role":"tool","tool_call_id":"a","content":"1"}]}`)
	items, _ := p.Transcript.History(provider.Rules{})
	if len(items) != 1 || len(items[0].Calls) != 2 || items[0].Calls[0].Result.IsZero() || items[0].Calls[0].Key == items[0].Calls[1].Key {
		t.Errorf("%+v", items)
	}
}

func TestHintsAreSystemMessagesOrFollowTheNewestTurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, position, want string }{
		{`{"messages":[{"role":"user","content":"hi"}]}`, "head", `{"messages":[{"role":"system","content":"stop"},{"role":"user","content":"hi"}]}`},
		{`{"messages":[ ]}`, "head", `{"messages":[{"role":"system","content":"stop"} ]}`},
		{`{"messages":[{"role":"tool","content":"r\\"},{"role":"assistant","content":"x"}]}`, "result", `{"messages":[{"role":"tool","content":"r\\\n\nstop"},{"role":"assistant","content":"x"}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, "result", `{"messages":[{"role":"user","content":[{"type":"image_url"},{"type":"text","text":"stop"}]}]}`},
		{`{"messages":[{"role":"user","content":null}]}`, "result", ""},
		{`{"messages":{}}`, "head", ""},
		{`{}`, "head", ""},
	} {
		got, err := chat.Chat{}.Hint([]byte(c.body), "stop", c.position)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %s, %v", c.body, got, err)
		}
	}
}

func TestErrorsHaveOpenAIsNames(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "invalid_request_error", 429: "rate_limit_error", 502: "server_error", 503: "server_error",
	} {
		got := string(chat.Chat{}.Refusal(provider.Refusal{Status: status, Code: "c", Message: "m"}))
		if got != `{"error":{"message":"m","type":"`+want+`","param":null,"code":"c"}}` {
			t.Errorf("%d: %s", status, got)
		}
	}
}

// What a provider adds beside an answer's thinking changes each time, and says nothing.
func TestSignaturesOfThinkingHaveNoPart(t *testing.T) {
	t.Parallel()
	want := parse(t, `{"messages":[{"role":"assistant","content":"hi"}]}`).Tail
	for _, member := range []string{`"reasoning_opaque":"x1"`, `"reasoning_text":"hm"`, `"extra_content":{"google":{"thought_signature":"x"}}`, `"provider_specific_fields":{"a":1}`} {
		if diff := cmp.Diff(want, parse(t, `{"messages":[{"role":"assistant","content":"hi",`+member+`}]}`).Tail); diff != "" {
			t.Errorf("%s: %s", member, diff)
		}
	}
}

// Templates such as Qwen's refuse a system message that is not the first.
func TestHintAtTheHeadIsPartOfALeadingSystemMessage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"messages":[{"role":"system","content":"You help."},{"role":"user","content":"hi"}]}`:                     `{"messages":[{"role":"system","content":"H\n\nYou help."},{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"developer","content":[{"type":"text","text":"a"}]},{"role":"user","content":"hi"}]}`: `{"messages":[{"role":"developer","content":[{"type":"text","text":"H"},{"type":"text","text":"a"}]},{"role":"user","content":"hi"}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"system","content":"late"}]}`:                          `{"messages":[{"role":"system","content":"H"},{"role":"user","content":"hi"},{"role":"system","content":"late"}]}`,
	} {
		got, err := chat.Chat{}.Hint([]byte(body), "H", provider.Head)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
