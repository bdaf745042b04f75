package answerscan_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/share/bytetime"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
)

// readWhole reads an answer of a kind, in pieces, with all watchers.
func readWhole(t *testing.T, kind, coding string, piece int) bytetime.Reader {
	t.Helper()
	return func(input []byte) int {
		body := input
		if coding == "gzip" {
			var out bytes.Buffer
			w, _ := gzip.NewWriterLevel(&out, gzip.HuffmanOnly)
			_, _ = w.Write(input) // of a buffer that takes all
			_ = w.Close()
			body = out.Bytes()
		}
		seen := false
		res := &http.Response{Header: http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}}, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(body))}
		res.Body = answerscan.Watch(res, answers.Follow(true, quiet{}), answers.Failures(func() {}), usage.Meter(func(usage.Usage, bool) {}))
		res.Body = answerscan.Last(res, &seen)
		for p := make([]byte, piece); ; {
			if _, err := res.Body.Read(p); err != nil {
				break
			}
		}
		_ = res.Body.Close()
		return len(input)
	}
}

// Whatever an upstream answers is scanned in one pass. The test runs alone, since it
// measures.
func TestTheTimeForEachByteOfAnAnswerIsBounded(t *testing.T) {
	streams := bytetime.Repeated("", "", map[string]string{
		"events": chatStream(),
		"deltas": "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"some words of it\"}\n\n",
	})
	hostile := map[string]string{
		"line ends": "\n", "returns": "\r", "spaces": " ", "colons": ":", "names of events": "event: a\n", "empty events": "data: {}\n\n",
		"data": "data: ", "done": "data: [DONE]\n\n", "nearly done": "data: [DONE", "quotes": `"`, "backslashes": `\`, "braces": "{", "lists": "[", "closed": "}", "names": `{"usage":`,
		"items": `{"item":`, "outputs": `{"output":[{`, "usages": "data: {\"usage\":{\"a\":1}}\n\n", "errors": "data: {\"error\":{}}\n\n",
		"open items": "data: {\"item\":{\"a\":\"\n\n", "responses": "data: {\"response\":{\"output\":[{\"type\":\"function_call\"}]}}\n\n", "bytes": "\x00",
	}
	for _, c := range []struct {
		kind, coding string
		piece        int
	}{{"text/event-stream", "", 4 << 10}, {"text/event-stream", "", 7}, {"text/event-stream", "gzip", 4 << 10}, {"application/json", "", 32 << 10}, {"application/json", "gzip", 32 << 10}} {
		t.Run(c.kind+" "+c.coding, func(t *testing.T) {
			bytetime.Check(t, readWhole(t, c.kind, c.coding, c.piece), streams, bytetime.Repeated("", "", hostile))
			bytetime.Check(t, readWhole(t, c.kind, c.coding, c.piece), bytetime.Repeated(`{"output":[`, `{}]}`, map[string]string{
				"whole": wholeAnswer() + ",", "calls": `{"type":"function_call","call_id":"1","name":"f"},`,
			}),
				bytetime.Repeated(`{"id":"r","output":[`, `{}]}`, map[string]string{
					"small items": `{},`, "strings": `"a",`, "texts": `{"a":"`, "numbers": "1,", "escapes": `"\"",`,
				}))
		})
	}
}

// So are streams in the framings of formats.
func TestTheTimeForEachByteOfAFramedAnswerIsBounded(t *testing.T) {
	for _, f := range formats.All {
		if f.Framing == nil {
			continue
		}
		frame := func(name, document string) string { return string(f.Framing.Frame(name, []byte(document))) }
		text := strings.Repeat("words ", 1<<10)
		units := map[string]string{"bytes": "\x00", "line ends": "\n", "returns": "\r", "braces": "{", "quotes": `"`, "cut off": frame("a", `{"a":1}`)[:7]}
		for name, document := range map[string]string{
			"empty": "", "objects": "{}", "line ends": "\n\r\n\r", "usages": `{"usage":{"inputTokens":1}}`, "ends": `{"done":true}`, "chunks": `{"bytes":"e30="}`,
			"no base64": `{"bytes":"!"}`, "not closed": `{"item":{"a":"`, "large": `{"a":"` + text + text + `"}`,
		} {
			units["frames: "+name], units["frames with a name: "+name] = frame("", document), frame(text[:100], document)
		}
		t.Run(f.Name(), func(t *testing.T) {
			for _, piece := range []int{7, 32 << 10} {
				bytetime.Check(t, readWhole(t, f.Framing.ContentType, "", piece), bytetime.Repeated("", "", map[string]string{
					"deltas": frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"some words of it"},"message":{"content":"some"},"done":false}`),
				}), bytetime.Repeated("", "", units))
			}
		})
	}
}
