package replay

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/checkpb"
)

// everything is a bundle with each detector, and rules that count the tokens of a request. The
// digest of a body is compared with that of others only, and is left out.
const everything = `bundle_version: 1
prices: {m: {input_usd_per_million: 1, output_usd_per_million: 2}}
policies:
- id: p
  spec:
    prompt: {}
    tool: {}
    cycle: {}
    semantic: {}
    rules:
    - {name: r, limit_keys: ["header:X-Session-Id"], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 1000000}}
    - {name: c, limit_keys: ["header:X-Session-Id"], algorithm: cost_based, algorithm_config: {budget: 9, period: 1d, cost_key: usd, staged_actions: [{threshold_percent: 100, action: reject}]}}
`

type object = map[string]any

// dialect writes messages as a format has them.
type dialect struct {
	path, offered string
	said          func(role, text string) object
	called        func(id, tool, argument string) object
	returned      func(id, text string) object
}

var dialects = map[string]dialect{
	"messages": {"/v1/messages", `"system":"You code.","tools":[{"name":"sh","input_schema":{}}],`,
		func(role, text string) object { return object{"role": role, "content": text} },
		func(id, tool, argument string) object {
			return object{"role": "assistant", "content": []any{object{"type": "text", "text": "Next."}, object{"type": "tool_use", "id": id, "name": tool, "input": object{"command": argument}}}}
		},
		func(id, text string) object {
			return object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": text}}}
		}},
	"chat": {"/v1/chat/completions", `"tools":[{"type":"function","function":{"name":"sh"}}],`,
		func(role, text string) object { return object{"role": role, "content": text} },
		func(id, tool, argument string) object {
			return object{"role": "assistant", "content": nil, "tool_calls": []any{object{"id": id, "type": "function", "function": object{"name": tool, "arguments": fmt.Sprintf(`{"command":%q}`, argument)}}}}
		},
		func(id, text string) object { return object{"role": "tool", "tool_call_id": id, "content": text} }},
}

// texts are what is said and returned: repeated, long, failed, acted in text, a picture.
var texts = []string{
	"Make the tests pass.", "1 failed: cart", "ok", "Thought: look.\nAction: sh\nAction Input: ls\n", "Observation: a.go", "<system-reminder>Save.</system-reminder>",
	strings.Repeat("a line of a file with code in it\n", 20), "data:image/png;base64," + base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 900)...)),
}

// conversations draws messages, as JSON.
func (d *dialect) conversation(t *rapid.T) (list [][]byte) {
	for i := range rapid.IntRange(1, 60).Draw(t, "messages") {
		id, text := fmt.Sprint("c", i), rapid.SampledFrom(texts).Draw(t, "text")
		var all []object
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			all = []object{d.said("system", text)}
		case 1, 2:
			all = []object{d.said("user", text)}
		case 3, 4:
			all = []object{d.said("assistant", text)}
		case 5:
			all = []object{d.called(id, "read", text)}
		default:
			all = []object{d.called(id, "sh", rapid.SampledFrom([]string{"npm test", "ls"}).Draw(t, "command")), d.returned(id, text)}
		}
		for _, m := range all {
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, raw)
		}
	}
	return list
}

// The check about a request that is read by what it adds is that about the whole request.
func TestRequestsOfAConversationAreCheckedAsWholeOnes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
				cfg := &Config{MaxInspectBytes: 1 << 30}
				cfg.Policies.File = file
				var both [2]*Replayer
				for i := range both {
					var err error
					if both[i], err = New(cfg, func() time.Time { return now }); err != nil {
						t.Fatal(err)
					}
				}
				c := &Conversation{}
				var said, added [][]byte
				for _, m := range d.conversation(t) {
					said, added = append(said, m), append(added, m)
					if rapid.Bool().Draw(t, "goes on") {
						continue
					}
					begin := `{"model":"m","max_tokens":9,`
					list := join(added)
					next := begin + `"messages":[` + list + `]}`
					if len(said) == len(added) {
						next = begin + d.offered + `"messages":[` + list + `]}`
					}
					part := Part{Body: []byte(next), Frame: len(begin) + len(d.offered) + len(`"messages":[]}`), Added: len(list)}
					want := check(t, both[0], d.path, begin+d.offered+`"messages":[`+join(said)+`]}`, nil, Part{})
					got := check(t, both[1], d.path, "", c, part)
					if !proto.Equal(want, got) {
						t.Fatalf("after %d messages (-whole +added):\n%s", len(said), cmp.Diff(want, got, protocmp.Transform()))
					}
					added, now = nil, now.Add(time.Second)
				}
			})
		})
	}
}

func join(messages [][]byte) string {
	var out []string
	for _, m := range messages {
		out = append(out, string(m))
	}
	return strings.Join(out, ",")
}

func check(t *rapid.T, e *Replayer, path, body string, c *Conversation, part Part) *checkpb.Check {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-Session-Id", "s")
	r.Header.Set("Authorization", "Bearer k")
	out, err := e.EvaluateNext(r, Origin{}, c, part)
	if err != nil {
		t.Fatal(err)
	}
	out.Check.RequestId = ""
	return out.Check
}
