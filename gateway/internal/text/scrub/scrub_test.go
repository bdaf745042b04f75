package scrub

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/memory/identity"
)

// hash returns hashes as gateways make them.
var hash = identity.NewHasher([identity.KeySize]byte{1}).Pseudonym

func TestNamesAndSignaturesAreReplaced(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"metadata":               `{"metadata":{"session_id":"HIDDEN-4711","note":"kept"},"messages":[{"role":"user","content":"kept"}]}`,
		"Claude Code":            `{"metadata":{"user_id":"user_kept_session_HIDDEN"},"messages":"kept"}`,
		"users":                  `{"user":"HIDDEN","safety_identifier":"HIDDEN","prompt_cache_key":"HIDDEN","x":"kept"}`,
		"conversation":           `{"conversation":"conv_HIDDEN","previous_response_id":"resp_HIDDEN","input":"kept"}`,
		"conversation by object": `{"conversation":{"id":"conv_HIDDEN"},"client_metadata":{"thread_id":"HIDDEN"},"input":"kept"}`,
		"thinking": `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"kept","signature":"HIDDEN"},` +
			`{"data":"HIDDEN","type":"redacted_thinking"}]}]}`,
		"encrypted reasoning": `{"input":[{"type":"reasoning","encrypted_content":"HIDDEN` + strings.Repeat("x", 100) + `","summary":["kept"]}]}`,
		"routers":             `{"messages":[{"reasoning_details":[{"type":"reasoning.encrypted","data":"HIDDEN"}],"reasoning_opaque":"HIDDEN","content":"kept"}]}`,
		"Gemini":              `{"contents":[{"parts":[{"functionCall":{"name":"kept","args":{}},"thoughtSignature":"HIDDEN"},{"thought_signature":"HIDDEN"}]}]}`,
		"escaped":             `{"metadata":{"session\u005fid":"HIDDEN\n"},"x":"kept"}`,
	} {
		got := string(Body([]byte(body), hash))
		if strings.Contains(got, "HIDDEN") || !strings.Contains(got, "kept") && name != "Claude Code" {
			t.Errorf("%s: scrubbed to %s", name, got)
		}
		if name == "encrypted reasoning" && len(got) != len(body) {
			t.Errorf("%s: %d bytes became %d, which changes what the request is estimated to cost", name, len(body), len(got))
		}
		if again := string(Body([]byte(body), hash)); again != got {
			t.Errorf("%s: scrubbed to %s and as %s", name, got, again)
		}
	}
}

func TestWhatAgentsAndToolsSaidIsKept(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"messages":[{"content":[{"type":"tool_use","input":{"signature":"f(x)","session_id":"7"}}]}]}`,
		`{"contents":[{"parts":[{"functionCall":{"args":{"signature":"f(x)"}}},{"functionResponse":{"response":{"signature":"s"}}}]}]}`,
		`{"tools":[{"input_schema":{"properties":{"signature":{"type":"string"},"session_id":{"type":"string"}}}}]}`,
		`{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"iVBORw0KGgo="}}]}]}`,
		`{"metadata":7,"conversation":null,"user":["x"],"previous_response_id":""}`,
		`[]`, `"text"`, `7`, `{"user":`,
	} {
		if got := string(Body([]byte(body), hash)); got != body {
			t.Errorf("%s is scrubbed to %s", body, got)
		}
	}
}

func TestPathsNameNoConversation(t *testing.T) {
	t.Parallel()
	got := Path("/v1/conversations/conv_4711/items?limit=2", hash)
	if strings.Contains(got, "4711") || !strings.HasPrefix(got, "/v1/conversations/conv_") || !strings.HasSuffix(got, "/items?limit=2") {
		t.Errorf("scrubbed to %s", got)
	}
	if path := "/v1/responses/compact"; Path(path, hash) != path {
		t.Errorf("%s is scrubbed to %s", path, Path(path, hash))
	}
}

// FuzzBody holds that a scrubbed body is still JSON, with nothing left to scrub.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"metadata":{"session_id":"s"},"messages":[{"content":[{"type":"redacted_thinking","data":"d"}]}]}`))
	f.Add([]byte(`{"input":[{"encrypted_content":"e"}],"conversation":{"id":"c"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := Body(body, func(string) string { return "0123456789abcdef" })
		if json.Valid(body) != json.Valid(got) {
			t.Fatalf("%q becomes %q", body, got)
		}
		if again := Body(got, func(string) string { return "0123456789abcdef" }); !bytes.Equal(again, got) {
			t.Fatalf("%q becomes %q, then %q", body, got, again)
		}
	})
}
