package usage

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
)

// answers are one answer of each format, and what it cost.
var answers = map[string]struct {
	kind, body string
	want       Usage
}{
	"Chat Completions": {"application/json", `{"id":"c","choices":[{"message":{"content":"{\"usage\":{\"prompt_tokens\":999}}"}}],
		"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"prompt_tokens_details":{"cached_tokens":64}}}`, Usage{100, 64, 20}},
	"Chat Completions, streamed": {"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n", Usage{7, 0, 3}},
	"Responses": {"application/json", `{"object":"response","output":[],"usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":8},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}`, Usage{40, 8, 5}},
	"Responses, streamed": {"text/event-stream; charset=utf-8", "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":4}}}\n\n", Usage{11, 0, 4}},
	"Messages": {"application/json", `{"type":"message","content":[{"type":"tool_use","input":{"usage":{"input_tokens":999}}}],
		"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":30,"output_tokens":6}}`, Usage{45, 30, 6}},
	"Messages, streamed": {"text/event-stream", "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\r\n\r\n" +
		"event: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n" +
		"event: message_delta\r\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":15}}\r\n\r\n", Usage{25, 0, 15}},
	"Gemini": {"application/json", `{"candidates":[{"content":{"parts":[{"functionCall":{"args":{"usageMetadata":{"promptTokenCount":999}}}}]}}],
		"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":8,"thoughtsTokenCount":3,"cachedContentTokenCount":2}}`, Usage{12, 2, 11}},
	"Gemini, an array of parts": {"application/json", `[{"usageMetadata":{"promptTokenCount":12}},
		{"usageMetadata":{"promptTokenCount":12,"candidatesTokenCount":9}}]`, Usage{12, 0, 9}},
	"Gemini, events": {"text/event-stream", "data: {\"usageMetadata\":{\"promptTokenCount\":5,\"candidatesTokenCount\":1}}\r\n\r\n" +
		"data: {\"usageMetadata\":{\"promptTokenCount\":5,\"candidatesTokenCount\":6}}\r\n\r\n", Usage{5, 0, 6}},
	"a provider that has it in a choice": {"text/event-stream", "data: {\"choices\":[{\"delta\":{},\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":2}}]}\n\ndata: [DONE]\n\n", Usage{8, 0, 2}},
	"a choice of an answer in one piece": {"application/json", `{"choices":[{"message":{"content":"x"},"usage":{"prompt_tokens":6,"completion_tokens":1}}],"other":[{"usage":{"prompt_tokens":999}}]}`, Usage{6, 0, 1}},
	"after an event that is broken off":  {"text/event-stream", "data: {\"a\":[\"\n\ndata: {\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":1}}\n\n", Usage{2, 0, 1}},
	"comments and quotes between events": {"text/event-stream", ": \"ping\n\nevent: \"x\ndata: {\"usage\":{\"prompt_tokens\":2}}\n\n", Usage{2, 0, 0}},
}

// read reads an answer to its end and returns what was found, and the bytes.
func read(t testing.TB, kind, coding string, body io.Reader) (got Usage, found, called bool, passed []byte, err error) {
	t.Helper()
	res := &http.Response{Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
	if coding != "" {
		res.Header.Set("Content-Encoding", coding)
	}
	b := answerscan.Watch(res, Meter(func(u Usage, ok bool) {
		if called {
			t.Error("told twice")
		}
		got, found, called = u, ok, true
	}))
	passed, err = io.ReadAll(b)
	if closeErr := b.Close(); closeErr != nil {
		t.Error(closeErr)
	}
	return got, found, called, passed, err
}

func TestUsageOfEveryFormat(t *testing.T) {
	t.Parallel()
	for name, a := range answers {
		for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			got, found, _, passed, err := read(t, a.kind, "", pieces(strings.NewReader(a.body)))
			if !found || got != a.want || err != nil {
				t.Errorf("%s: %+v, %v, %v; want %+v", name, got, found, err, a.want)
			}
			if string(passed) != a.body {
				t.Errorf("%s: the bytes changed", name)
			}
		}
	}
}

// encoders compress, by content coding.
var encoders = map[string]func(io.Writer) io.WriteCloser{
	"gzip": func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"br":   func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		zw, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return zw
	},
}

func compress(t *testing.T, coding, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := encoders[coding](&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUsageOfCompressedAnswers(t *testing.T) {
	t.Parallel()
	a := answers["Messages, streamed"]
	for coding := range encoders {
		body := compress(t, coding, a.body)
		got, found, _, passed, err := read(t, a.kind, coding, iotest.HalfReader(bytes.NewReader(body)))
		if !found || got != a.want || err != nil || !bytes.Equal(passed, body) {
			t.Errorf("%s: %+v, %v, %v; want %+v and the same bytes", coding, got, found, err, a.want)
		}
	}
}

func TestAnswersWithoutReadableUsagePassUnchanged(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]struct{ coding, body string }{
		"no usage":               {"", `{"choices":[]}`},
		"null":                   {"", `{"usage":null}`},
		"no object":              {"", `{"usage":"{\"prompt_tokens\":1}"}`},
		"in a text":              {"", `"usage\":{\"prompt_tokens\":1}"`},
		"too deep":               {"", `{"a":{"b":{"usage":{"prompt_tokens":1}}}}`},
		"endless":                {"", `{"usage":{"x":"` + strings.Repeat("a", maxObject) + `","prompt_tokens":1}}`},
		"negative":               {"", `{"usage":{"prompt_tokens":-5}}`},
		"not what it says":       {"gzip", "not gzip at all"},
		"an unknown coding":      {"compress", `{"usage":{"prompt_tokens":1}}`},
		"cut off":                {"gzip", string(compress(t, "gzip", answers["Messages"].body)[:20])},
		"more closes than opens": {"", `}}}]]{"usage":{`},
	} {
		got, found, called, passed, err := read(t, "application/json", a.coding, strings.NewReader(a.body))
		if found || !called || err != nil || string(passed) != a.body {
			t.Errorf("%s: %+v, found %v, told %v, %v", name, got, found, called, err)
		}
	}
}

func TestAnswerThatBreaksOffTellsWhatHadCome(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	whole := answers["Messages, streamed"].body
	for _, coding := range []string{"", "gzip"} {
		for length, want := range map[int]bool{20: false, 120: true} {
			start := whole[:length]
			if coding != "" {
				start = string(compress(t, coding, start))
			}
			_, found, called, _, err := read(t, "text/event-stream", coding, io.MultiReader(strings.NewReader(start), iotest.ErrReader(broken)))
			if called != want || found != want || !errors.Is(err, broken) {
				t.Errorf("after %d bytes: told %v, found %v, %v", length, called, found, err)
			}
		}
	}
}

func TestUsageIsTheSameInAnyPieces(outer *testing.T) {
	outer.Parallel()
	rapid.Check(outer, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"{", "}", "[", "]", `"usage"`, ":", `"`, `\`, "\n", "data: ", "1", `"prompt_tokens":3`, ","})).Draw(t, "pieces")
		text := strings.Join(pieces, "")
		whole, wholeFound, _, _, _ := read(outer, "text/event-stream", "", strings.NewReader(text))
		bytewise, bytewiseFound, _, _, _ := read(outer, "text/event-stream", "", iotest.OneByteReader(strings.NewReader(text)))
		if whole != bytewise || wholeFound != bytewiseFound {
			t.Fatalf("%q: %+v and %+v", text, whole, bytewise)
		}
	})
}

func TestLongestOutputOfEveryFormat(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"max_tokens":5}`: 5, `{"max_completion_tokens":6,"messages":[{"max_tokens":9}]}`: 6, `{"max_output_tokens":7}`: 7,
		`{"generationConfig":{"maxOutputTokens":8}}`: 8, `{"generation_config":{"max_output_tokens":9}}`: 9,
		`{"generationConfig":1}`: 0, `{"generationConfig":{"topK":4,"maxOutputTokens":8}}`: 8, `{"max_tokens":`: 0, `{"generationConfig":{"maxOutputTokens":}}`: 0, `{"max_tokens":null}`: 0, `{"max_tokens":"5"}`: 0, `{"max_tokens":-5}`: 0, `{}`: 0, `[1]`: 0, `{"max_tokens":5`: 0, ``: 0,
	} {
		if got := BoundsOf([]byte(body)).Output; got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}

func TestAnswersThatARequestAsksFor(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"n":4}`: 4, `{"best_of":3,"n":2}`: 3, `{"generationConfig":{"candidateCount":2}}`: 2, `{"generation_config":{"candidate_count":5}}`: 5,
		`{"n":0}`: 1, `{"n":-3}`: 1, `{"n":"4"}`: 1, `{"n":null}`: 1, `{}`: 1, ``: 1, `{"messages":[{"n":9}]}`: 1,
	} {
		if got := BoundsOf([]byte(body)).Answers; got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}

func TestUsageThatCameBeforeTheClientLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, body string
		want       Usage
		found      bool
	}{
		"a whole report": {"text/event-stream", strings.TrimSuffix(answers["Chat Completions, streamed"].body, "data: [DONE]\n\n"), Usage{7, 0, 3}, true},
		"the first, and two events since": {"text/event-stream", "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n" +
			"data: {\"delta\":{\"text\":\"a\"}}\n\ndata: {\"delta\":{\"text\":\"b\"}}\n\n", Usage{25, 0, 3}, true},
		"none": {"text/event-stream", "data: {\"choices\":[]}\n\n", Usage{}, false},
	} {
		for _, end := range []error{nil, context.Canceled} {
			var got Usage
			var found bool
			body := io.MultiReader(strings.NewReader(c.body), iotest.ErrReader(end))
			b := answerscan.Watch(&http.Response{Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(body)}, Meter(func(u Usage, ok bool) { got, found = u, ok }))
			_, err := io.ReadFull(b, make([]byte, len(c.body)))
			if end != nil {
				_, err = b.Read(make([]byte, 1))
			}
			if !errors.Is(err, end) {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil || got != c.want || found != c.found {
				t.Errorf("%s: %+v, found %v, %v; want %+v", name, got, found, err, c.want)
			}
		}
	}
}

func TestTheMostThatAnswersMayHave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bounds         Bounds
		standard, most int
		want           int
	}{
		"the standard":           {Bounds{Answers: 1}, 100, 0, 100},
		"the request's own":      {Bounds{Output: 50, Answers: 1}, 100, 0, 50},
		"more than the standard": {Bounds{Output: 500, Answers: 1}, 100, 0, 500},
		"no more than most":      {Bounds{Output: 500, Answers: 1}, 100, 200, 200},
		"several answers":        {Bounds{Output: 50, Answers: 3}, 100, 200, 150},
		"without end":            {Bounds{Output: 1 << 60, Answers: 1 << 60}, 100, 0, MaxTokens * maxAnswers},
	} {
		if got := c.bounds.MaxOutput(c.standard, c.most); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Members of a body that no model reads cost nothing.
func TestThePromptAndTheToolsCost(t *testing.T) {
	t.Parallel()
	prompt := strings.Repeat("word ", 160) // 800 bytes, 200 tokens
	for name, body := range map[string]string{
		"Chat Completions": `{"model":"m","messages":"` + prompt + `","metadata":{"note":"` + prompt + `"},"user":"` + prompt + `"}`,
		"Messages":         `{"system":"` + prompt[:400] + `","messages":"` + prompt[:400] + `","metadata":{"user_id":"` + prompt + `"}}`,
		"Responses":        `{"instructions":"` + prompt[:400] + `","input":"` + prompt[:400] + `","store":true,"metadata":"` + prompt + `"}`,
		"Gemini":           `{"systemInstruction":"` + prompt[:200] + `","contents":"` + prompt[:200] + `","tools":"` + prompt[:400] + `","labels":"` + prompt + `"}`,
	} {
		if got := BoundsOf([]byte(body)).Prompt; got < 200 || got > 203 {
			t.Errorf("%s: %d tokens, want 200", name, got)
		}
	}
	if got := BoundsOf([]byte(`{"text":"` + prompt + `"}`)).Prompt; got != 0 {
		t.Errorf("of no format that is known: %d tokens", got)
	}
}
