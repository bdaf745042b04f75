package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// session is a conversation of about size bytes, as coding agents have them: files
// as results, and a line of code escapes two bytes or three.
func session(size int) Conversation {
	const code = "\tif err != nil {\n\t\treturn fmt.Errorf(\"read %s: %w\", path, err)\n\t}\n\tfor _, line := range strings.Split(text, \"\\n\") {\n"
	c := Fixing()
	c.System = strings.Repeat("You are an agent that fixes code. Be careful. ", max(1, size/8/46))
	c.Turns = c.Turns[:1]
	for i, left := 0, size-size/8; left > 0; i++ {
		text := strings.Repeat(code, min(left, 4000)/len(code)+1)
		id := fmt.Sprintf("call_%06d", i)
		c.Turns = append(c.Turns,
			Turn{Said: "I read the next one.", Calls: []Call{{ID: id, Tool: "read_file", Args: fmt.Sprintf(`{"path":"src/%d.go","limit":200}`, i)}}},
			Turn{Results: []Result{{ID: id, Tool: "read_file", Text: text}}})
		left -= len(text) + 400
	}
	return c
}

var sizes = []struct {
	name string
	size int
}{{"2KB", 1100}, {"12KB", 10 << 10}, {"60KB", 52 << 10}, {"128KB", 110 << 10}, {"2MB", 1750 << 10}}

// BenchmarkInspect compares the inspection of a body with reading it and with
// decoding it into structs.
func BenchmarkInspect(b *testing.B) {
	for _, s := range sizes {
		conversation := session(s.size)
		chatBody := Chat(conversation)
		run := func(name string, body []byte, f func() error) {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("read", chatBody, func() error {
			_, err := io.ReadAll(bytes.NewReader(chatBody))
			return err
		})
		run("structs", chatBody, func() error { return decodeStructs(chatBody) })
		for _, p := range all {
			body := Formats[p.Name()](conversation)
			cache := provider.NewCache()
			run(p.Name(), body, func() error { return inspect(p, body, provider.Options{Tail: 3, Cache: cache}) })
			run(p.Name()+"/first", body, func() error { return inspect(p, body, provider.Options{Tail: 3}) })
			run(p.Name()+"/rounds", body, func() error { return inspect(p, body, provider.Options{Tail: 3, Items: 60, Cache: cache}) })
			run(p.Name()+"/rounds/first", body, func() error { return inspect(p, body, provider.Options{Tail: 3, Items: 60}) })
		}
	}
}

// inspect reads a body. Without a cache it is the first of its session.
func inspect(p provider.Provider, body []byte, o provider.Options) error {
	prompt, err := p.Parse(body, o)
	if err == nil && o.Items > 0 {
		prompt.Transcript.History(provider.Rules{})
	}
	return err
}

func decodeStructs(body []byte) error {
	var request struct {
		Model    string `json:"model"`
		Messages []struct {
			Role       string `json:"role"`
			Content    any    `json:"content"`
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	return json.Unmarshal(body, &request)
}
