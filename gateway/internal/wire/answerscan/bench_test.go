package answerscan_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

type quiet struct{}

func (quiet) ID(string)   {}
func (quiet) Item([]byte) {}
func (quiet) Whole()      {}
func (quiet) Failed()     {}

func chatStream() string {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"some words %d \"},\"finish_reason\":null}],\"usage\":null}\n\n", i)
	}
	b.WriteString("data: {\"id\":\"chatcmpl-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":50}}\n\ndata: [DONE]\n\n")
	return b.String()
}

func wholeAnswer() string {
	return `{"id":"resp_1","object":"response","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"` +
		strings.Repeat(`It is a text of \"several\" lines.\nIt has many words, as answers do. `, 270) + `"}]},{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\":\"a.go\"}"}],"usage":{"input_tokens":40,"output_tokens":5}}`
}

func BenchmarkAnswer(b *testing.B) {
	for name, c := range map[string]struct{ kind, body string }{"stream": {"text/event-stream", chatStream()}, "whole": {"application/json", wholeAnswer()}} {
		for _, watch := range []string{"usage", "answers", "both"} {
			b.Run(name+"/"+watch, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(c.body)))
				for b.Loop() {
					res := &http.Response{Header: http.Header{"Content-Type": {c.kind}}, ContentLength: -1, Body: io.NopCloser(bytes.NewReader([]byte(c.body)))}
					var watchers []answerscan.Watcher
					if watch != "usage" {
						watchers = append(watchers, answers.Follow(true, quiet{}))
					}
					if watch != "answers" {
						watchers = append(watchers, usage.Meter(func(usage.Usage, bool) {}))
					}
					res.Body = answerscan.Watch(res, watchers...)
					if _, err := io.Copy(io.Discard, res.Body); err != nil {
						b.Fatal(err)
					}
					_ = res.Body.Close()
				}
			})
		}
	}
}
