package answerscan_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// notes logs the calls of a watcher, which wants the objects of one name.
type notes struct {
	wanted string
	most   int
	log    []string
}

func (n *notes) note(format string, values ...any) {
	n.log = append(n.log, fmt.Sprintf(format, values...))
}

func (*notes) Names() *answerscan.Names { return nil }

func (n *notes) Document() { n.note("/ {") }

func (n *notes) Event(name []byte) { n.note("event %s", name) }

func (n *notes) Text(at *answerscan.Place, text []byte) { n.note("%s = %s", path(at), text) }

func (n *notes) Object(at *answerscan.Place) int {
	n.note("%s {", path(at))
	if string(at.Name()) == n.wanted {
		return n.most
	}
	return 0
}

func (n *notes) JSON(at *answerscan.Place, object []byte) { n.note("%s is %s", path(at), object) }
func (n *notes) Literal(*answerscan.Place, []byte)        {}
func (n *notes) Closed(at *answerscan.Place)              { n.note("%s }", path(at)) }
func (n *notes) End(whole bool)                           { n.note("end, whole: %v", whole) }

// path is where a value stands, as far as these tests use names.
func path(at *answerscan.Place) string {
	for _, known := range [][]string{
		{}, {"a"}, {"a", "b"}, {"a", "b", "c"}, {answerscan.Element}, {answerscan.Element, "a"}, {"a", answerscan.Element}, {"a", answerscan.Element, "b"},
	} {
		if at.Is(known...) {
			return "/" + strings.ReplaceAll(strings.Join(known, "/"), answerscan.Element, "*")
		}
	}
	return fmt.Sprintf("%d deep", at.Depth())
}

// scanned returns what the watchers of an answer note.
func scanned(t testing.TB, header http.Header, body io.Reader, watchers ...*notes) []byte {
	t.Helper()
	all := make([]answerscan.Watcher, len(watchers))
	for i, w := range watchers {
		all[i] = w
	}
	b := answerscan.Watch(&http.Response{Header: header, ContentLength: -1, Body: io.NopCloser(body)}, all...)
	passed, err := io.ReadAll(b)
	if closeErr := b.Close(); err != nil || closeErr != nil {
		t.Errorf("%v, %v", err, closeErr)
	}
	return passed
}

var (
	plain  = http.Header{"Content-Type": {"application/json"}}
	stream = http.Header{"Content-Type": {"Text/Event-Stream; charset=utf-8"}}
)

func TestValuesAreReportedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 192)
	for name, c := range map[string]struct {
		header       http.Header
		body, wanted string
		most         int
		want         []string
	}{
		"texts": {
			plain, `{"a":"one" , "b":["no name","nor this"],"a":""}`, "", 0,
			[]string{"/ {", "/a = one", "1 deep }", "/ }"},
		},
		"escapes stay": {plain, `{"a":"1\"\\2"}`, "", 0, []string{"/ {", `/a = 1\"\\2`, "/ }"}},
		"lengths": {
			plain, `{"a":"` + long + `","a":"` + long + `x","` + long + `":"of a long name"}`, "", 0,
			[]string{"/ {", "/a = " + long, "1 deep = of a long name", "/ }"},
		},
		"depth": {
			plain, `{"a":{"b":{"c":{"d":"too deep"},"c":"3"}}}`, "", 0,
			[]string{"/ {", "/a {", "/a/b {", "/a/b/c {", "/a/b/c }", "/a/b/c = 3", "/a/b }", "/a }", "/ }"},
		},
		"lists": {
			plain, `[{"a":"1"},{"a":[{"b":2}]}]`, "", 0,
			[]string{"/* {", "/*/a = 1", "/* }", "/* {", "3 deep {", "3 deep }", "/*/a }", "/* }", "/ }"},
		},
		"numbers and null": {plain, `{"a":null,"a":1.5,"a":true}`, "", 0, []string{"/ {", "/ }"}},
		"a wanted object": {
			plain, `{"a": {"b":[ {} ], "}":"{\""} ,"c":{}}`, "a", 100,
			[]string{"/ {", "/a {", "3 deep }", "/a/b }", `2 deep = {\"`, `/a is {"b":[ {} ], "}":"{\""}`, "/a }", "1 deep {", "1 deep }", "/ }"},
		},
		"a stream": {
			stream, "event: one\r\ndata: {\"a\":\"1\"}\r\n\r\n: no event: x\n\ndata: {\"a\":\"2\"}\n\ndata: [DONE]\n\n", "", 0,
			[]string{"event one", "/ {", "/a = 1", "/ {", "/a = 2", "event [DONE]"},
		},
		"an event that is broken off": {
			stream, "data: {\"a\":{\"b\":\"\\\n\ndata: {\"a\":\"2\"}\n\n", "a", 100, []string{"/ {", "/a {", "/ {", "/a = 2"},
		},
		"a long name of an event":   {stream, "event: " + strings.Repeat("x", 60) + "\n\n", "", 0, nil},
		"lines in a document":       {stream, "data: {\"a\":\ndata: \"1\",\n\"a\":\"2\"}\n\n", "", 0, []string{"/ {", "/a = 1", "/a = 2"}},
		"an event outside a stream": {plain, "event: one\n{}", "", 0, []string{"/ {", "/ }"}},
		"more closes than opens":    {plain, `]}{"a":"1"}}]`, "", 0, []string{"/ {", "/a = 1", "/ }"}},
		"nothing":                   {plain, "", "", 0, nil},
	} {
		for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			n := &notes{wanted: c.wanted, most: c.most}
			passed := scanned(t, c.header, pieces(strings.NewReader(c.body)), n)
			if string(passed) != c.body {
				t.Errorf("%s: the bytes changed", name)
			}
			if diff := cmp.Diff(append(c.want, "end, whole: true"), n.log); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestWatchersHaveTheirOwnObjects(t *testing.T) {
	t.Parallel()
	outer, inner, short := &notes{wanted: "a", most: 100}, &notes{wanted: "b", most: 100}, &notes{wanted: "a", most: 10}
	scanned(t, plain, strings.NewReader(`{"a":{"b":{"c":1}},"a":{"c":1}}`), outer, inner, short)
	for name, c := range map[string]struct {
		log  []string
		want []string
	}{
		"the outer object, and none in it": {outer.log, []string{`/a is {"b":{"c":1}}`, `/a is {"c":1}`}},
		"the inner object":                 {inner.log, []string{`/a/b is {"c":1}`}},
		"an object that is not too long":   {short.log, []string{`/a is {"c":1}`}},
	} {
		var got []string
		for _, line := range c.log {
			if strings.Contains(line, " is ") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	w := &places{}
	b := answerscan.Watch(&http.Response{Header: stream, ContentLength: -1, Body: io.NopCloser(strings.NewReader(`data: {"a":[{"b":"x"}]}`))}, w)
	if _, err := io.ReadAll(b); err != nil {
		t.Fatal(err)
	}
	at := w.at
	for name, ok := range map[string]bool{
		"its path":           at.Is("a", answerscan.Element, "b"),
		"any":                at.Is(answerscan.Any, answerscan.Any, answerscan.Any),
		"any list":           at.Is("a", answerscan.Any, "b"),
		"another name":       !at.Is("a", answerscan.Element, "c"),
		"a longer path":      !at.Is("a", answerscan.Element, "b", "c"),
		"a part of it":       !at.Is("a", answerscan.Element),
		"its name and depth": string(at.Name()) == "b" && at.Depth() == 3 && at.Stream,
	} {
		if !ok {
			t.Errorf("%s: wrong", name)
		}
	}
}

// places keeps the place of the last text.
type places struct {
	notes
	at answerscan.Place
}

func (p *places) Text(at *answerscan.Place, _ []byte) { p.at = *at }

func TestCompressedAnswersAreScanned(t *testing.T) {
	t.Parallel()
	const text = `{"a":"1"}`
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	whole := compressed.String()
	found := []string{"/ {", "/a = 1", "/ }"}
	for name, c := range map[string]struct {
		coding, body string
		want         []string
	}{
		"gzip":              {" GZip ", whole, found},
		"identity":          {"identity", text, found},
		"an unknown coding": {"compress", whole, nil},
		"two codings":       {"gzip, gzip", whole, nil},
		"not what it says":  {"gzip", text, nil},
		"cut off":           {"gzip", whole[:len(whole)-8], found},
		"cut off early":     {"gzip", whole[:5], nil},
		"garbage behind":    {"gzip", whole + "garbage", found},
	} {
		for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
			n := &notes{}
			passed := scanned(t, http.Header{"Content-Encoding": {c.coding}}, pieces(strings.NewReader(c.body)), n)
			if diff := cmp.Diff(append(c.want, "end, whole: true"), n.log); diff != "" || string(passed) != c.body {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestTheEndIsReportedOnce(t *testing.T) {
	t.Parallel()
	const text = `{"a":"1"}`
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		header http.Header
		length int64
		behind error // what a read behind the text returns
		reads  int
		want   string
	}{
		"at the end":                   {plain, -1, io.EOF, 2, "end, whole: true"},
		"with the last announced byte": {plain, int64(len(text)), broken, 1, "end, whole: true"},
		"broken off":                   {plain, -1, broken, 3, "end, whole: false"},
		"closed":                       {plain, -1, io.EOF, 1, "end, whole: false"},
		"closed while compressed":      {http.Header{"Content-Encoding": {"gzip"}}, -1, io.EOF, 1, "end, whole: false"},
	} {
		n := &notes{}
		body := io.MultiReader(strings.NewReader(text), iotest.ErrReader(c.behind))
		b := answerscan.Watch(&http.Response{Header: c.header, ContentLength: c.length, Body: io.NopCloser(body)}, n)
		for range c.reads {
			_, _ = b.Read(make([]byte, 100))
		}
		early := len(n.log)
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if last := n.log[len(n.log)-1]; last != c.want || strings.Count(strings.Join(n.log, "\n"), "end, ") != 1 || c.reads > 1 && early != len(n.log) {
			t.Errorf("%s: %q", name, n.log)
		}
	}
}

func TestABodyThatNobodyWatchesIsLeftAlone(t *testing.T) {
	t.Parallel()
	body := io.NopCloser(strings.NewReader("x"))
	if got := answerscan.Watch(&http.Response{Body: body}); got != body {
		t.Errorf("the body became %v", got)
	}
}

func TestAnythingIsScannedAlikeInAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"{", "}", "[", "]", `"a"`, `"b"`, ":", `"`, `\`, "\n", "\r\n", "data: ", "event: x", "1", ",", " ",
		})).Draw(r, "pieces"), "")
		header := rapid.SampledFrom([]http.Header{plain, stream}).Draw(r, "header")
		whole, bytewise := &notes{wanted: "a", most: 20}, &notes{wanted: "a", most: 20}
		scanned(t, header, strings.NewReader(text), whole)
		scanned(t, header, iotest.OneByteReader(strings.NewReader(text)), bytewise)
		if diff := cmp.Diff(whole.log, bytewise.log); diff != "" {
			r.Fatalf("%q: %s", text, diff)
		}
	})
}

// Whatever arrives as a stream in a format's own framing, and however it is cut.
func TestAnyFramesAreScannedAlikeInAnyPieces(t *testing.T) {
	t.Parallel()
	var framings []*provider.Framing
	for _, f := range formats.All {
		if f.Framing != nil {
			framings = append(framings, f.Framing)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		framing := rapid.SampledFrom(framings).Draw(r, "framing")
		var stream []byte
		for _, document := range rapid.SliceOf(rapid.SampledFrom([]string{`{"a":"1"}`, `{"bytes":"eyJhIjoiMiJ9"}`, "{", "\n", ""})).Draw(r, "documents") {
			stream = append(stream, framing.Frame(rapid.SampledFrom([]string{"a", "chunk", ""}).Draw(r, "name"), []byte(document))...)
			switch at := rapid.IntRange(0, len(stream)).Draw(r, "at"); rapid.SampledFrom([]string{"", "", "", "flip", "cut", "more"}).Draw(r, "damage") {
			case "flip":
				stream[min(at, len(stream)-1)] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
			case "cut":
				stream = stream[:at]
			case "more":
				stream = slices.Insert(stream, at, rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(r, "bytes")...)
			}
			if len(stream) == 0 {
				return
			}
		}
		header := http.Header{"Content-Type": {framing.ContentType}}
		whole, bytewise := &notes{wanted: "a", most: 20}, &notes{wanted: "a", most: 20}
		if got := scanned(t, header, bytes.NewReader(stream), whole); !bytes.Equal(got, stream) {
			r.Fatalf("%q passed as %q", stream, got)
		}
		scanned(t, header, iotest.OneByteReader(bytes.NewReader(stream)), bytewise)
		if diff := cmp.Diff(whole.log, bytewise.log); diff != "" {
			r.Fatalf("%q: %s", stream, diff)
		}
	})
}

// only is a watcher that wants the values of one name.
type only struct {
	notes
	names *answerscan.Names
}

func (o *only) Names() *answerscan.Names { return o.names }

func TestEventsWithoutNamesThatAreWantedPass(t *testing.T) {
	t.Parallel()
	const passes = "/ {"
	for name, c := range map[string]struct {
		event string
		want  []string
	}{
		"no name":                 {`{"b":1}`, nil},
		"a name":                  {`{"a":"1"}`, []string{"/a = 1"}},
		"a name in an object":     {`{"b":{"a":"1"}}`, []string{"1 deep {", "2 deep = 1", "1 deep }"}},
		"a text":                  {`{"b":"a"}`, []string{"1 deep = a"}},
		"null":                    {`{"b":"1","a":null}`, nil},
		"null behind a space":     {`{"b":"1","a": null}`, []string{"1 deep = 1"}},
		"the first is null":       {`{"a":null,"a":"1"}`, []string{"/a = 1"}},
		"an escaped quote":        {`{"b":"\"a\""}`, nil},
		"a part of a name":        {`{"aa":"1"}`, nil},
		"a name behind a bracket": {`{"b":"{","a":"1"}`, []string{"1 deep = {", "/a = 1"}},
	} {
		for _, around := range []string{"data:%s\n\n", "data: %s\r\n\r\n"} {
			w := &only{names: answerscan.NamesOf("a")}
			body := fmt.Sprintf(around, c.event) + fmt.Sprintf(around, `{"b":"2"}`)
			b := answerscan.Watch(&http.Response{Header: stream, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}, w)
			if _, err := io.ReadAll(b); err != nil {
				t.Fatal(err)
			}
			want := append(append([]string{passes}, c.want...), passes, "end, whole: true")
			if diff := cmp.Diff(want, w.log); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// In an event that arrives in pieces every value is looked at, so what passes is compared
// with that.
func TestEventsThatPassHoldNothingThatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"{", "}", "[", "]", `"a"`, `"b"`, `"a`, ":", ":null", ",", `"`, `\`, "\n", "\r\n", "\n\n", "data: ", "data:{", "data: {", "}\n\n", `"b":"1",`, `"a":"1"`, "event: x", "1", " ",
		})).Draw(r, "pieces"), "")
		var logs [2][]string
		for i, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			w := &only{names: answerscan.NamesOf("a")}
			b := answerscan.Watch(&http.Response{Header: stream, ContentLength: -1, Body: io.NopCloser(pieces(strings.NewReader(text)))}, w)
			if _, err := io.ReadAll(b); err != nil {
				r.Fatal(err)
			}
			for _, line := range w.log {
				if strings.HasPrefix(line, "/a") || line == "/ {" || strings.HasPrefix(line, "event") || strings.HasSuffix(line, "= a") {
					logs[i] = append(logs[i], line)
				}
			}
		}
		if diff := cmp.Diff(logs[0], logs[1]); diff != "" {
			r.Fatalf("%q: %s", text, diff)
		}
	})
}
