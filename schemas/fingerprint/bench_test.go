package fingerprint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/fingerprint"
)

// chat is a request such as agents send: a long system prompt, then rounds of
// small calls and large results.
func chat(rounds, resultBytes int, text string) []byte {
	type fn struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function fn     `json:"function"`
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Calls   []call `json:"tool_calls,omitempty"`
		CallID  string `json:"tool_call_id,omitempty"`
	}
	messages := []message{{Role: "system", Content: strings.Repeat(text, 4000/len(text))}, {Role: "user", Content: "fix it"}}
	for i := range rounds {
		id := fmt.Sprintf("call_%06d", i)
		messages = append(messages,
			message{Role: "assistant", Calls: []call{{id, "function", fn{"read_file", fmt.Sprintf(`{"path": "src/%d.go", "limit": 200}`, i)}}}},
			message{Role: "tool", CallID: id, Content: strings.Repeat(text, resultBytes/len(text))})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages, "temperature": 0.5})
	if err != nil {
		panic(err)
	}
	return body
}

var bodies = []struct {
	name string
	body []byte
}{
	{"plain-1MB", chat(50, 20_000, "The quick brown fox jumps over the lazy dog. ")},
	{"code-1MB", chat(50, 20_000, "\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", path, err)\n\t}\n")},
	{"small-8KB", chat(6, 600, "ok, done with that step. ")},
	{"rounds-2000", chat(1000, 300, "ok, done with that step. ")},
}

func BenchmarkJSON(b *testing.B) {
	for _, bb := range bodies {
		b.Run(bb.name, func(b *testing.B) {
			var c fingerprint.Canon
			b.SetBytes(int64(len(bb.body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.JSON(bb.body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bb.name+"/encoding-json-into-structs", func(b *testing.B) {
			b.SetBytes(int64(len(bb.body)))
			b.ReportAllocs()
			for b.Loop() {
				var v struct {
					Model    string
					Messages []struct {
						Role, Content string
						ToolCalls     []struct {
							ID       string
							Function struct{ Name, Arguments string }
						} `json:"tool_calls"`
						CallID string `json:"tool_call_id"`
					}
				}
				if err := json.Unmarshal(bb.body, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
