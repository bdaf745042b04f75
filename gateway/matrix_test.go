package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/rules/policystore"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/provider/responses"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/fingerprint"
)

var updateMatrix = flag.Bool("update", false, "write what requests are read as into testdata/matrix; read it before it is committed")

// shape is a request as clients send it, with its answer.
type shape struct {
	Name   string            `json:"name"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   json.RawMessage   `json:"body"`
	// Known are items that the request refers to, by their ids.
	Known map[string]json.RawMessage `json:"known"`
	// Answer is a document, Stream the data of events.
	Answer json.RawMessage `json:"answer"`
	Stream []string        `json:"stream"`
}

// matrixFormats returns the files of shapes.
func matrixFormats(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "matrix", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	return names
}

func TestEachFormatHasShapes(t *testing.T) {
	t.Parallel()
	missing := map[*provider.Format]bool{}
	for _, f := range formats.All {
		missing[f] = true
	}
	for _, name := range matrixFormats(t) {
		for _, s := range shapesOf(t, name) {
			delete(missing, s.request(t).Target.Format)
		}
	}
	for f := range missing {
		t.Errorf("testdata/matrix has no request in the format %s", f.Name())
	}
}

func shapesOf(t *testing.T, format string) (shapes []shape) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "matrix", format+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &shapes); err != nil {
		t.Fatal(err)
	}
	return shapes
}

// TestRequestsOfEachFormatAreReadAsTheyMean compares, for each shape, what is read from
// it, where a hint gets into it, what repair changes, how it is refused and what it
// costs with what somebody who knows the format wrote down or checked.
func TestRequestsOfEachFormatAreReadAsTheyMean(t *testing.T) {
	t.Parallel()
	for _, format := range matrixFormats(t) {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, s := range shapesOf(t, format) {
				fmt.Fprintf(&got, "# %s\n", s.Name)
				s.describe(t, &got)
				got.WriteByte('\n')
			}
			name := filepath.Join("testdata", "matrix", format+".golden")
			if *updateMatrix {
				if err := os.WriteFile(name, []byte(got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func (s *shape) describe(t *testing.T, out io.Writer) {
	t.Helper()
	req := s.request(t)
	fmt.Fprintf(out, "goes to   %s at %s as %s\n", req.Target.Upstream, req.Target.URL.Host, req.Provider.Name())
	fmt.Fprintf(out, "prompt    %s\n", describePrompt(req.Prompt))
	describeHistory(out, req.Prompt)
	for _, position := range []string{provider.Head, provider.Result} {
		hinted, err := req.Provider.Hint(s.Body, "HINT", position)
		if err != nil {
			fmt.Fprintf(out, "hint      %s: none (%v)\n", position, err)
			continue
		}
		fmt.Fprintf(out, "hint      %s: %s\n", position, change(s.Body, hinted))
	}
	repaired, report, err := req.Provider.Repair(s.Body)
	switch {
	case err != nil:
		t.Errorf("%s: %v", s.Name, err)
	case report.Changed():
		fmt.Fprintf(out, "repair    %s: %s\n", report, change(s.Body, repaired))
	case &repaired[0] != &s.Body[0]:
		t.Errorf("%s: changed without a repair", s.Name)
	}
	fmt.Fprintf(out, "refused   %s\n", refused(req))
	fmt.Fprintf(out, "costs     about %d in, up to %d out%s\n", req.Body.PromptTokens(), usage.BoundsOf(req.Body.Inspected()).MaxOutput(1000, 0), s.usage(t, req.Target.Format))
}

// request is the request as it was read.
func (s *shape) request(t *testing.T) *request.Request {
	t.Helper()
	upstreams := map[string]string{}
	for _, u := range formats.Upstreams {
		if u.Address == "" {
			upstreams[u.Name] = "https://" + u.Name + ".example"
		}
	}
	table, err := route.NewTable(upstreams)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, s.Path, bytes.NewReader(s.Body))
	for name, value := range s.Header {
		r.Header.Set(name, value)
	}
	target, ok := table.Route(r)
	if !ok || !target.Format.Prompt() {
		t.Fatalf("%s: %s is no path of a prompt", s.Name, s.Path)
	}
	req := request.New(r, target)
	req.Body = &request.Body{Bytes: s.Body, Text: s.Body}
	opts := provider.Options{Tail: 3, Items: policystore.HistoryItems, Path: r.URL.Path, Known: map[string]provider.ToolCall{}}
	for id, item := range s.Known {
		opts.Known[id], _, ok = responses.Called(item)
		if !ok {
			t.Fatalf("%s: %s is no call", s.Name, item)
		}
	}
	if req.Prompt, err = req.Provider.Parse(s.Body, opts); err != nil || req.Prompt == nil {
		t.Fatalf("%s: %v, %v", s.Name, req.Prompt, err)
	}
	return req
}

func describePrompt(p *provider.Prompt) string {
	words := []string{"model " + p.Model, fmt.Sprint(p.Transcript.Messages(), " messages")}
	for _, w := range []struct {
		word string
		is   bool
	}{
		{"streamed", p.Stream}, {"with usage", p.StreamUsage}, {"of a set form", p.Structured}, {"in background", p.Background},
		{"shows a part", p.Delta}, {"offers tools or shows calls", p.Transcript.HasTools()}, {"begins somewhere", !p.Opening.IsZero()},
		{"user " + p.User, p.User != ""}, {"session " + p.Session, p.Session != ""}, {"after " + p.Previous, p.Previous != ""},
		{"in " + p.Conversation, p.Conversation != ""}, {"refers to " + strings.Join(p.References, ", "), len(p.References) > 0},
		{"its items may be referred to", p.Referable},
	} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, "; ")
}

// describeHistory numbers what is equal by the same number.
func describeHistory(out io.Writer, p *provider.Prompt) {
	items, _ := p.Transcript.History(provider.Rules{})
	var humans, calls, results numbers
	for _, it := range items {
		if !it.Human.IsZero() {
			fmt.Fprintf(out, "human     %s\n", humans.of(it.Human))
		}
		for i, c := range it.Calls {
			line := "call     "
			if i > 0 {
				line = "  beside "
			}
			fmt.Fprintf(out, "%s %s, %s", line, c.Tool, calls.of(c.Key))
			for _, w := range []struct {
				word string
				is   bool
			}{
				{"result " + results.of(c.Result), !c.Result.IsZero()}, {"open", c.Result.IsZero()}, {"failed", c.Failed},
				{"the provider's", c.Provided}, {"not offered", c.NotOffered}, {"a poll", c.Poll}, {"without an id", c.ID.IsZero()},
			} {
				if w.is {
					fmt.Fprintf(out, ", %s", w.word)
				}
			}
			fmt.Fprintln(out)
		}
	}
	if p.Transcript.Strays() {
		fmt.Fprintln(out, "strays    results of calls that it does not show")
	}
	said, answered := p.Transcript.Exchange(100)
	fmt.Fprintf(out, "newest    %q after %q\n", answered, said)
}

// numbers name digests by the order in which they come.
type numbers map[fingerprint.Digest]int

func (n *numbers) of(d fingerprint.Digest) string {
	switch {
	case d.IsZero():
		return ""
	case *n == nil:
		*n = numbers{}
	}
	if (*n)[d] == 0 {
		(*n)[d] = len(*n) + 1
	}
	return fmt.Sprint("#", (*n)[d])
}

// change shows what is other in a body, with a little of what stands around it.
func change(from, to []byte) string {
	const around = 30
	head := 0
	for head < len(from) && head < len(to) && from[head] == to[head] {
		head++
	}
	tail := 0
	for tail < len(from)-head && tail < len(to)-head && from[len(from)-1-tail] == to[len(to)-1-tail] {
		tail++
	}
	gone := from[head : len(from)-tail]
	s := fmt.Sprintf("…%s[+%s+]%s…", to[max(0, head-around):head], to[head:len(to)-tail], to[len(to)-tail:min(len(to), len(to)-tail+around)])
	if len(gone) > 0 {
		s += fmt.Sprintf(" for [-%s-]", gone)
	}
	return s
}

// refused is how the request is told of a loop.
func refused(req *request.Request) string {
	out := outcome.Decide(&outcome.Case{Caller: "caller", Decision: &checkpb.Decision{Findings: []*checkpb.Finding{{
		Detector: finding.Tool, Policy: "p", HitCount: 5, Message: "stop", LoopId: "l", Fingerprint: []byte{1}, Action: checkpb.Action_ACTION_REJECT,
	}}}})
	answer, err := req.Provider.Answer(req.Prompt, provider.Reply{ID: "1", Text: "stop", URL: &url.URL{Path: req.Path, RawQuery: req.RawQuery}})
	instead := "or in the model's place as " + answer.ContentType
	if err != nil {
		instead = "and not in the model's place"
	}
	return fmt.Sprintf("%d %.60s…, %s", out.Status, out.Body(nil, req.Provider), instead)
}

// usage is what the answer says that it cost.
func (s *shape) usage(t *testing.T, f *provider.Format) string {
	t.Helper()
	res := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: -1}
	text := s.Answer
	switch {
	case len(s.Stream) > 0 && f.Framing != nil:
		res.Header.Set("Content-Type", f.Framing.ContentType)
		for _, event := range s.Stream {
			at := strings.IndexByte(event, '{')
			text = append(text, f.Framing.Frame(strings.TrimSpace(event[:at]), []byte(event[at:]))...)
		}
	case len(s.Stream) > 0:
		res.Header.Set("Content-Type", "text/event-stream")
		text = []byte("data: " + strings.Join(s.Stream, "\n\ndata: ") + "\n\n")
	}
	if len(text) == 0 {
		return ""
	}
	res.Body = io.NopCloser(bytes.NewReader(text))
	said, failed := "; the answer does not say", ""
	meter := usage.Meter(func(u usage.Usage, found bool) {
		if found {
			said = fmt.Sprintf("; the answer says %d in, %d of them cached, %d out", u.Input, u.Cached, u.Output)
		}
	})
	passed, err := io.ReadAll(answerscan.Watch(res, meter, answers.Failures(func() { failed = "; it failed" })))
	if err != nil || !bytes.Equal(passed, text) {
		t.Errorf("%s: the answer changed: %v", s.Name, err)
	}
	return said + failed
}
