package conformance

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

// counted are the usages that a stream of each format may end in: 8 tokens in, 3 out.
var counted = map[string]object{
	"openai-chat":        {"choices": []object{}, "usage": object{"prompt_tokens": 8, "completion_tokens": 3}},
	"openai-responses":   {"type": "response.completed", "response": object{"usage": object{"input_tokens": 8, "output_tokens": 3}}},
	"anthropic-messages": {"type": "message_delta", "usage": object{"input_tokens": 8, "output_tokens": 3}},
	"bedrock-anthropic":  {"type": "message_delta", "usage": object{"input_tokens": 8, "output_tokens": 3}},
	"gemini":             {"usageMetadata": object{"promptTokenCount": 8, "candidatesTokenCount": 3}},
	"bedrock-converse":   {"usage": object{"inputTokens": 8, "outputTokens": 3}},
	"ollama":             {"prompt_eval_count": 8, "eval_count": 3},
}

// streamed returns an answer's stream with the usage in front, which is as good as behind.
func streamed(t *testing.T, f *provider.Format, a provider.Answer) []byte {
	t.Helper()
	document := counted[f.Name()]
	if document == nil {
		t.Fatalf("%s has no usage", f.Name())
	}
	if framing := formats.Framing(a.ContentType); framing != nil {
		return append(f.Framing.Frame("usage", marshal(document)), a.Body...)
	}
	return append([]byte("data: "+string(marshal(document))+"\n\n"), a.Body...)
}

// Of a stream, however it comes in, the gateway reads the usage and the end, and passes
// each byte.
func TestStreamsOfEachFormatAreReadWhileTheyPass(t *testing.T) {
	t.Parallel()
	for _, f := range formats.All {
		s := suite{f.Provider, Formats[f.Name()]}
		for _, form := range forms[f.Name()] {
			if form.events == nil {
				continue
			}
			answer, err := s.answer(t, form)
			if err != nil {
				t.Fatal(err)
			}
			stream := streamed(t, f, answer)
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write(stream)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for way, body := range map[string]io.Reader{
				"":               bytes.NewReader(stream),
				", byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
				", in gzip":      &packed,
			} {
				t.Run(f.Name()+" at "+form.url+way, func(t *testing.T) {
					t.Parallel()
					res := &http.Response{Header: http.Header{"Content-Type": {strings.ToUpper(answer.ContentType)}}, ContentLength: -1}
					if body == &packed {
						res.Header.Set("Content-Encoding", "gzip")
					}
					checkStream(t, f, res, body)
				})
			}
		}
	}
}

func checkStream(t *testing.T, f *provider.Format, res *http.Response, body io.Reader) {
	t.Helper()
	var sent, passed bytes.Buffer
	var got usage.Usage
	over := make(chan struct{})
	ended := false
	res.Body = io.NopCloser(io.TeeReader(body, &sent))
	res.Body = answerscan.Watch(res, usage.Meter(func(u usage.Usage, _ bool) { got = u; close(over) }))
	last := answerscan.Last(res, &ended)
	_, err := io.Copy(&passed, last)
	if err != nil {
		t.Error(err)
	}
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Fatal("the scan does not end")
	}
	if !bytes.Equal(sent.Bytes(), passed.Bytes()) {
		t.Error("the stream was changed")
	}
	if got.Input != 8 || got.Output != 3 {
		t.Errorf("the usage is %+v", got)
	}
	if hasEnd := f.LastEvents != nil || f.LastMember != "" || f.Framing != nil; hasEnd != ended {
		t.Errorf("the end is seen: %v, want %v", ended, hasEnd)
	}
}
