package answers_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
)

// told logs the calls of a watcher.
type told struct{ log []string }

func (t *told) ID(id string)     { t.log = append(t.log, "id "+id) }
func (t *told) Item(json []byte) { t.log = append(t.log, string(json)) }
func (t *told) Whole()           { t.log = append(t.log, "whole") }
func (t *told) Failed()          { t.log = append(t.log, "failed") }

const (
	call  = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{\"id\":\"not an id\",\"output\":[{}]}"}`
	begun = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"","status":"in_progress"}`
	said  = `{"type":"message","content":[{"type":"output_text","text":"\"id\":\"resp_no\" } ]"}]}`
)

// watchable are answers, and the calls of a watcher for each.
var watchable = map[string]struct {
	kind, body string
	want       []string
}{
	"plain": {
		"application/json", `{ "metadata":{"id":"no"},"id" : "resp_1","object":"response","output":[` + said + `,` + call + `],"usage":{"output":[{}]}}` + "\n",
		[]string{"id resp_1", said, call, "whole"},
	},
	"another's id": {"application/json", `{"output":[` + call + `],"id":"r.1/x"}`, []string{call, "id r.1/x", "whole"}},
	"no calls":     {"application/json", `{"id":"resp_1","output":[]}`, []string{"id resp_1"}},
	"streamed": {
		"text/event-stream; charset=utf-8", events(
			`{"type":"response.created","response":{"id":"resp_1","output":[]}}`,
			`{"type":"response.output_item.added","item":`+begun+`,"output_index":0}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"item\":{}}"}`,
			`{"type":"response.output_item.done","output_index":0,"item":`+call+`}`,
			`{"type":"response.completed","response":{"id":"resp_2","output":[`+call+`]}}`) + "data: [DONE]\n\n",
		[]string{"id resp_1", begun, call, call, "whole"},
	},
	"a stream without its end": {
		"text/event-stream", events(`{"response":{"id":"resp_1"}}`, `{"item":`+call+`}`), []string{"id resp_1", call, "whole"},
	},
	"an event that is broken off": {
		"text/event-stream", "data: {\"item\":{\"a\":[\"\n\n" + events(`{"response":{"id":"resp_1","output":[`+call+`]}}`), []string{"id resp_1", call, "whole"},
	},
	"an item that is too long": {
		"application/json", `{"id":"resp_1","output":[{"arguments":"` + strings.Repeat("a", 2<<20) + `"},` + call + `]}`, []string{"id resp_1", call, "whole"},
	},
	"no JSON": {"text/html", `<html>"id":"resp_1"</html>`, nil},
}

func events(all ...string) string {
	var b strings.Builder
	for _, data := range all {
		b.WriteString("event: x\r\ndata: " + data + "\r\n\r\n")
	}
	return b.String()
}

// watch reads an answer to its end through a watch and returns the watcher's calls.
func watch(t testing.TB, kind, coding string, items bool, body io.Reader) (log []string, passed []byte) {
	t.Helper()
	w := &told{}
	res := &http.Response{Header: http.Header{"Content-Type": {kind}, "Content-Encoding": {coding}}, ContentLength: -1, Body: io.NopCloser(body)}
	b := answerscan.Watch(res, answers.Follow(items, w))
	passed, err := io.ReadAll(b)
	if closeErr := b.Close(); err != nil || closeErr != nil {
		t.Errorf("%v, %v", err, closeErr)
	}
	return w.log, passed
}

func TestIDsAndItemsAreFoundInAnyPieces(t *testing.T) {
	t.Parallel()
	for name, a := range watchable {
		for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			got, passed := watch(t, a.kind, "", true, pieces(strings.NewReader(a.body)))
			if diff := cmp.Diff(a.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if string(passed) != a.body {
				t.Errorf("%s: the bytes changed", name)
			}
		}
	}
}

func TestWithoutItemsTheIDAloneIsTold(t *testing.T) {
	t.Parallel()
	for _, coding := range []string{"", "gzip"} {
		body := compressed(t, coding, watchable["streamed"].body, false)
		got, passed := watch(t, "text/event-stream", coding, false, bytes.NewReader(body))
		if diff := cmp.Diff([]string{"id resp_1"}, got); diff != "" || !bytes.Equal(passed, body) {
			t.Errorf("%q (-want +got):\n%s", coding, diff)
		}
	}
}

type flusher interface {
	io.WriteCloser
	Flush() error
}

// compressed is a text in a coding, each event flushed if wanted.
func compressed(t testing.TB, coding, text string, flush bool) []byte {
	t.Helper()
	var out bytes.Buffer
	var w flusher
	switch coding {
	case "":
		return []byte(text)
	case "gzip":
		w = gzip.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		zw, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		w = zw
	}
	for _, event := range strings.SplitAfter(text, "\r\n\r\n") {
		_, err := io.WriteString(w, event)
		if flush {
			err = errors.Join(err, w.Flush())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCompressedAnswersAreWatched(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "streamed"} {
		a := watchable[name]
		for _, coding := range []string{"gzip", "br", "zstd"} {
			body := compressed(t, coding, a.body, true)
			got, passed := watch(t, a.kind, coding, true, iotest.HalfReader(bytes.NewReader(body)))
			if diff := cmp.Diff(a.want, got); diff != "" || !bytes.Equal(passed, body) {
				t.Errorf("%s, %s (-want +got):\n%s", name, coding, diff)
			}
		}
	}
}

// What a client has read, it may go on from: the watcher must know it by then.
func TestTheWatcherKnowsBeforeTheClientDoes(t *testing.T) {
	t.Parallel()
	text, _ := strings.CutSuffix(watchable["streamed"].body, "data: [DONE]\n\n")
	for _, coding := range []string{"", "gzip", "br", "zstd"} {
		body := compressed(t, coding, text, true)
		w := &told{}
		res := &http.Response{
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {coding}}, ContentLength: -1,
			Body: io.NopCloser(io.MultiReader(bytes.NewReader(body), neverEnds{})),
		}
		b := answerscan.Watch(res, answers.Follow(true, w))
		if _, err := io.ReadFull(b, make([]byte, len(body))); err != nil {
			t.Fatal(err)
		}
		if len(w.log) == 0 || w.log[len(w.log)-1] != "whole" {
			t.Errorf("%q: told %q", coding, w.log)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	plain := watchable["another's id"].body
	w := &told{}
	res := &http.Response{ContentLength: int64(len(compressed(t, "gzip", plain, false))), Header: http.Header{"Content-Encoding": {"gzip"}}}
	res.Body = io.NopCloser(io.MultiReader(bytes.NewReader(compressed(t, "gzip", plain, false)), neverEnds{}))
	b := answerscan.Watch(res, answers.Follow(true, w))
	if _, err := io.ReadFull(b, make([]byte, res.ContentLength)); err != nil || len(w.log) != 3 {
		t.Errorf("%v; told %q at the announced end", err, w.log)
	}
	_ = b.Close() // of a reader in memory
}

// neverEnds is what a client does not read.
type neverEnds struct{}

func (neverEnds) Read([]byte) (int, error) { return 0, errors.New("read beyond what was sent") }

func TestAnswersThatCannotBeReadPassUnchanged(t *testing.T) {
	t.Parallel()
	whole := string(compressed(t, "gzip", watchable["plain"].body, false))
	for name, a := range map[string]struct{ coding, body string }{
		"an unknown coding": {"compress", whole}, "not what it says": {"gzip", "not gzip"}, "cut off": {"gzip", whole[:20]},
		"garbage behind": {"gzip", whole[:len(whole)-8] + "garbagegarbage"}, "nothing": {"gzip", ""},
	} {
		if _, passed := watch(t, "application/json", a.coding, true, iotest.OneByteReader(strings.NewReader(a.body))); string(passed) != a.body {
			t.Errorf("%s: the bytes changed", name)
		}
	}
}

func TestAWatchTakesAnythingInAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{
			"{", "}", "[", "]", `"output"`, `"response"`, `"item"`, `"id"`, ":", `"`, `\`, "\n", "data: ", "1", ",", `"resp_1"`,
		})).Draw(r, "pieces")
		text := strings.Join(pieces, "")
		kind := rapid.SampledFrom([]string{"text/event-stream", "application/json"}).Draw(r, "kind")
		whole, _ := watch(t, kind, "", true, strings.NewReader(text))
		bytewise, _ := watch(t, kind, "", true, iotest.OneByteReader(strings.NewReader(text)))
		if diff := cmp.Diff(whole, bytewise); diff != "" {
			r.Fatalf("%q: %s", text, diff)
		}
	})
}

// endless is an answer of one item, or of ever more of them.
type endless struct {
	piece string
	left  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n+len(e.piece) <= len(p) {
		n += copy(p[n:], e.piece)
	}
	e.left -= int64(n)
	return n, nil
}

func (e *endless) Close() error { return nil }

// forgetful is a watcher that keeps nothing.
type forgetful struct{}

func (forgetful) ID(string)   {}
func (forgetful) Item([]byte) {}
func (forgetful) Whole()      {}
func (forgetful) Failed()     {}

// It runs alone, since the allocations of all goroutines are measured.
func TestMemoryDoesNotGrowWithTheAnswer(t *testing.T) {
	const length, most = 12 << 20, 6 << 20
	for name, a := range map[string]struct{ begin, piece string }{
		"one item":    {`{"output":[{"arguments":"`, "aaaaaaaaaaaaaaaa"},
		"many items":  {`{"output":[`, `{"type":"x"},`},
		"one name":    {`{"`, "aaaaaaaaaaaaaaaa"},
		"many deep":   {``, `{"a":[`},
		"many closes": {``, `}]`},
	} {
		body := io.MultiReader(strings.NewReader(a.begin), &endless{a.piece, length})
		b := answerscan.Watch(&http.Response{ContentLength: -1, Body: io.NopCloser(body)}, answers.Follow(true, forgetful{}))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if n, err := io.Copy(io.Discard, b); n < length/2 || err != nil {
			t.Fatalf("%s: %d bytes, %v", name, n, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			t.Errorf("%s: %d bytes allocated for %d", name, used, length)
		}
	}
}

func BenchmarkWatch(b *testing.B) {
	piece := `data: {"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"some words of it"}` + "\n\n"
	for b.Loop() {
		res := &http.Response{
			Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: &endless{piece, 1 << 20},
		}
		if _, err := io.Copy(io.Discard, answerscan.Watch(res, answers.Follow(true, forgetful{}))); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(1 << 20)
}
