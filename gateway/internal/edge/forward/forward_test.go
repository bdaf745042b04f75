package forward

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/bedrock"
	"github.com/unloop/unloop/gateway/internal/wire/provider/chat"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
	"github.com/unloop/unloop/schemas/checkpb"
)

// observer notes what it is told.
type observer struct {
	answered int
	failed   error
	broken   bool
}

func (o *observer) Answered(res *http.Response) {
	o.answered = res.StatusCode
	res.Header.Set("X-Observed", "yes")
}

func (o *observer) Failed(w http.ResponseWriter, err error) {
	o.failed = err
	w.WriteHeader(http.StatusBadGateway)
}

func (o *observer) Broken() { o.broken = true }

func (*observer) Sent() {}

// proxy returns a proxy without keys.
func proxy(t testing.TB) *Proxy {
	t.Helper()
	transport, err := NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return New(transport, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// upstream serves a handler, and returns the target that leads to it.
func upstream(t testing.TB, handler http.HandlerFunc) route.Target {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL + "/base/v1/x?a=1;b&a=2")
	if err != nil {
		t.Fatal(err)
	}
	return route.Target{Upstream: "one", URL: at}
}

func TestRequestIsForwardedAsItCame(t *testing.T) {
	t.Parallel()
	type sent struct {
		Method, URI, Body string
		Header            http.Header
	}
	for name, c := range map[string]struct {
		in   http.Header
		out  Request
		want sent
	}{
		"headers": {
			http.Header{"X-Forwarded-For": {"1.1.1.1"}, "Forwarded": {"for=1"}, "X-Unloop-Check": {"id"}, "Digest": {"d"}, "Connection": {"X-Hop"}, "X-Hop": {"h"}, "Accept-Encoding": {"zstd, deflate"}},
			Request{Body: &request.Body{Bytes: []byte("body"), Length: 4}},
			sent{"POST", "/base/v1/x?a=1;b&a=2", "body", http.Header{"X-Forwarded-For": {"1.1.1.1"}, "Forwarded": {"for=1"}, "Digest": {"d"}, "Accept-Encoding": {"zstd, deflate"}, "Content-Length": {"4"}, "User-Agent": {""}}},
		},
		"changed body": {
			http.Header{"Digest": {"d"}, "Content-Md5": {"m"}},
			Request{Body: (&request.Body{Bytes: []byte("body"), Length: 4}).With([]byte("other body"))},
			sent{"POST", "/base/v1/x?a=1;b&a=2", "other body", http.Header{"Content-Length": {"10"}, "User-Agent": {""}}},
		},
		"readable answer": {
			http.Header{"Accept-Encoding": {"deflate, gzip;q=0.5"}},
			Request{Body: &request.Body{}, Readable: true},
			sent{"POST", "/base/v1/x?a=1;b&a=2", "", http.Header{"Accept-Encoding": {"gzip;q=0.5"}, "Content-Length": {"0"}, "User-Agent": {""}}},
		},
	} {
		var got sent
		c.out.Target = upstream(t, func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("User-Agent") == "" {
				r.Header.Set("User-Agent", "")
			}
			got = sent{r.Method, r.RequestURI, string(body), r.Header}
		})
		o := &observer{}
		c.out.Observer = o
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, c.out.Body.Length)))
		maps.Copy(r.Header, c.in)
		if c.out.Body.Changed || c.out.Body.Bytes == nil {
			r.ContentLength = 0
		}
		w := httptest.NewRecorder()
		proxy(t).Forward(w, r, c.out)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if o.answered != http.StatusOK || o.broken || o.failed != nil || w.Header().Get("X-Observed") != "yes" {
			t.Errorf("%s: observed %+v, answered %v", name, *o, w.Header())
		}
	}
}

func TestTrailersOfABodyThatComesInAreForwarded(t *testing.T) {
	t.Parallel()
	var got http.Header
	target := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = r.Trailer
	})
	p := proxy(t)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Forward(w, r, Request{Target: target, Body: &request.Body{Bytes: []byte("begin "), Rest: r.Body, Length: -1}, Observer: &observer{}})
	}))
	defer gateway.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL, io.MultiReader(strings.NewReader("rest")))
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"X-Sum": {"7"}}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if diff := cmp.Diff(http.Header{"X-Sum": {"7"}}, got); diff != "" {
		t.Errorf("trailers (-want +got):\n%s", diff)
	}
}

func TestUpstreamThatDoesNotAnswerIsReportedAndCounted(t *testing.T) {
	t.Parallel()
	target := upstream(t, func(http.ResponseWriter, *http.Request) {})
	target.URL.Host = "127.0.0.1:1"
	p, o := proxy(t), &observer{}
	w := httptest.NewRecorder()
	p.Forward(w, httptest.NewRequest(http.MethodPost, "/", nil), Request{Target: target, Body: &request.Body{}, Observer: o})
	if o.failed == nil || w.Code != http.StatusBadGateway || o.broken {
		t.Fatalf("observed %+v, answered %d", *o, w.Code)
	}
	if refusal := p.Unreachable(target, o.failed); refusal.Status != http.StatusBadGateway || refusal.Code != "upstream_unreachable" ||
		refusal.Message != "the upstream one at 127.0.0.1:1 could not be reached: connection refused" {
		t.Errorf("refused with %+v", refusal)
	}
	if n := testutil.ToFloat64(p.metrics.failures.WithLabelValues("one")); n != 1 {
		t.Errorf("%v failures are counted", n)
	}
}

func TestAnswersOfUpstreamsAreCountedAndTimed(t *testing.T) {
	t.Parallel()
	statuses := []int{200, 201, 304, 404, 429, 500, 529, 999}
	next := 0
	target := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(statuses[next]) })
	p := proxy(t)
	for next = range statuses {
		p.Forward(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), Request{Target: target, Body: &request.Body{}, Observer: &observer{}})
	}
	got := map[string]float64{}
	for _, class := range classes {
		got[class] = testutil.ToFloat64(p.metrics.answers.WithLabelValues("one", class))
	}
	if diff := cmp.Diff(map[string]float64{"1xx": 0, "2xx": 2, "3xx": 1, "4xx": 1, "429": 1, "5xx": 3}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if n := testutil.CollectAndCount(p.metrics.seconds); n != 1 {
		t.Errorf("%d upstreams are timed", n)
	}
}

func TestAnswerThatBreaksOffIsReported(t *testing.T) {
	t.Parallel()
	target := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "cut")
	})
	p, o := proxy(t), &observer{}
	done := make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		p.Forward(w, r, Request{Target: target, Body: &request.Body{}, Observer: o})
	}))
	defer gateway.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	<-done
	if !o.broken || o.failed != nil {
		t.Errorf("observed %+v", *o)
	}
}

// SDKs hang up after the last event, however that came. Such an answer is whole.
func TestAStreamIsWholeOnceItsLastEventWasRead(t *testing.T) {
	t.Parallel()
	const done, completed = "data: {}\n\ndata: [DONE]\n\n", "event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n"
	for name, c := range map[string]struct {
		pieces []string
		coding string
		broken bool
	}{
		"Chat Completions":           {[]string{done}, "", false},
		"split in its last event":    {[]string{done[:18], done[18:]}, "", false},
		"compressed":                 {[]string{done}, "gzip", false},
		"Responses":                  {[]string{completed}, "", false},
		"Messages":                   {[]string{"event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n"}, "", false},
		"not at its end":             {[]string{"data: {}\n\n"}, "", true},
		"compressed, not at its end": {[]string{"data: {}\n\n"}, "gzip", true},
		"a text about the end":       {[]string{"data: {\"text\":\"data: [DONE]\"}\n\n"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := leaveAfter(t, c.coding, c.pieces...).broken; got != c.broken {
				t.Errorf("taken for broken off: %v", got)
			}
		})
	}
}

// leaveAfter has a client hang up after it read the beginning of a stream, which comes in
// pieces.
func leaveAfter(t *testing.T, coding string, pieces ...string) *observer {
	t.Helper()
	if coding != "" {
		for i, piece := range pieces {
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			_, _ = io.WriteString(z, piece)
			_ = z.Flush() // the stream goes on
			pieces[i] = zipped.String()
		}
	}
	next := make(chan struct{}, len(pieces))
	target := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		for i, piece := range pieces {
			if i > 0 {
				<-next
			}
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
	p, o := proxy(t), &observer{}
	done := make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		p.Forward(w, r, Request{Target: target, Body: &request.Body{}, Observer: o})
	}))
	defer gateway.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip") // else the client decodes
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range pieces {
		if _, err := io.ReadFull(res.Body, make([]byte, len(piece))); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{}
	}
	leave()
	_ = res.Body.Close()
	<-done
	return o
}

func TestUpgradedConnectionsAreWaitedFor(t *testing.T) {
	t.Parallel()
	target := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.CopyN(conn, rw, 4)
	})
	p := proxy(t)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Forward(w, r, Request{Target: target, Body: &request.Body{}, Observer: &observer{}})
	}))
	defer gateway.Close()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", gateway.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from := bufio.NewReader(conn)
	res, err := http.ReadResponse(from, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answered %+v, %v", res, err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.WriteString(conn, "ping")
	text := make([]byte, 4)
	if _, err := io.ReadFull(from, text); err != nil || string(text) != "ping" {
		t.Errorf("read %q, %v", text, err)
	}
	_ = conn.Close()
	p.Wait()
}

func TestTrustedAuthoritiesComeFromAFile(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	transport, err := NewTransport(file)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(dir, "none.pem")} {
		if _, err := NewTransport(file); err == nil || !strings.Contains(err.Error(), "--upstream-ca") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestBodiesAreRepairedAndHinted(t *testing.T) {
	t.Parallel()
	const good = `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}`
	const orphan = `{"messages":[{"role":"user","content":"u"},{"role":"tool","tool_call_id":"1","content":"r"}]}`
	gzipped := &request.Body{Bytes: []byte("gzip"), Text: []byte(orphan), Length: 4}
	for name, c := range map[string]struct {
		body             *request.Body
		repaired, hinted string
		report           repair.Report
	}{
		"whole":      {&request.Body{Bytes: []byte(good), Length: int64(len(good))}, good, `{"messages":[{"role":"system","content":"HINT\n\ns"},{"role":"user","content":"u"}]}`, repair.Report{}},
		"orphan":     {&request.Body{Bytes: []byte(orphan), Length: int64(len(orphan))}, `{"messages":[{"role":"user","content":"u"}]}`, "", repair.Report{Orphans: 1}},
		"compressed": {gzipped, "gzip", "", repair.Report{}},
		"no JSON":    {&request.Body{Bytes: []byte("{"), Length: 1}, "{", "", repair.Report{}},
	} {
		got, report, err := repaired(chat.Chat{}, c.body)
		if string(got.Bytes) != c.repaired || report != c.report || (err != nil) != (name == "no JSON") || got.Length != int64(len(c.repaired)) {
			t.Errorf("%s: repaired to %s with %+v, %v", name, got.Bytes, report, err)
		}
		if changed := got != c.body; changed != c.report.Changed() || changed != got.Changed {
			t.Errorf("%s: changed %t", name, changed)
		}
		hinted, err := hinted(chat.Chat{}, c.body, "HINT", provider.Head)
		if c.hinted != "" && (err != nil || string(hinted.Bytes) != c.hinted) || err != nil && hinted != c.body {
			t.Errorf("%s: hinted to %s, %v", name, hinted.Bytes, err)
		}
		if name == "compressed" && !errors.Is(err, provider.ErrNoPlace) {
			t.Errorf("a compressed body can take a hint: %v", err)
		}
	}
}

func TestHintThatHasNoPlaceInTheNewestMessageGoesToTheHead(t *testing.T) {
	t.Parallel()
	b := &request.Body{Bytes: []byte(`{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]}`), Length: -1}
	hinted, err := hinted(chat.Chat{}, b, "HINT", provider.Result)
	if err != nil || !strings.Contains(string(hinted.Bytes), "HINT") || hinted.Length != -1 {
		t.Errorf("hinted to %s, %v", hinted.Bytes, err)
	}
}

func TestChangesOfBodiesAreCounted(t *testing.T) {
	t.Parallel()
	p := proxy(t)
	for name, c := range map[string]struct{ body, changes string }{
		"orphan": {`{"messages":[{"role":"user","content":"u"},{"role":"tool","tool_call_id":"1","content":"r"}]}`, "orphans=1"},
		"whole":  {`{"messages":[{"role":"user","content":"u"}]}`, ""},
		"broken": {`{`, ""},
	} {
		req := &request.Request{Target: route.Target{Format: chat.Format}, Provider: chat.Chat{}, Body: &request.Body{Bytes: []byte(c.body)}}
		if body, changes := p.Repair(req, "session"); changes != c.changes || (body == req.Body) != (changes == "") {
			t.Errorf("%s: changed %q", name, changes)
		}
		f := &checkpb.Finding{Policy: "p", Fingerprint: []byte{1}}
		if body := p.Hint(req, req.Body, "HINT", provider.Head, f); (body == req.Body) != (name == "broken") {
			t.Errorf("%s: hinted to %s", name, body.Bytes)
		}
	}
	given, none := testutil.ToFloat64(p.hints.WithLabelValues("given")), testutil.ToFloat64(p.hints.WithLabelValues("no-place"))
	if orphans := testutil.ToFloat64(p.repairs.WithLabelValues("orphans")); orphans != 1 || given != 2 || none != 1 {
		t.Errorf("%v orphans, %v hints given and %v without a place", orphans, given, none)
	}
}

// blind observes nothing.
type blind struct{}

func (blind) Answered(*http.Response)           {}
func (blind) Failed(http.ResponseWriter, error) {}
func (blind) Broken()                           {}
func (blind) Sent()                             {}

func BenchmarkForward(b *testing.B) {
	answer := bytes.Repeat([]byte("x"), 2000)
	target := upstream(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	})
	p := proxy(b)
	body := bytes.Repeat([]byte("y"), 4000)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		req := request.New(r, target)
		req.Body = &request.Body{Bytes: body, Length: int64(len(body))}
		p.Forward(httptest.NewRecorder(), r, Request{Target: req.Target, Body: req.Body, Observer: blind{}})
	}
}

// A request that its client has signed keeps its body, unless the gateway signs it anew.
func TestSignedBodiesStay(t *testing.T) {
	t.Parallel()
	const broken = `{"messages":[{"role":"user","content":[{"text":"u"},{"toolResult":{"toolUseId":"1","content":[]}}]}]}`
	signature := http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=AKID/20260522/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00"}}
	for name, c := range map[string]struct {
		header http.Header
		keys   Keys
		stays  bool
	}{
		"signed":                   {signature, nil, true},
		"signed, with another key": {signature, Keys{"openai": "sk"}, true},
		"signed, with a key":       {signature, Keys{"bedrock": "AKID:secret"}, false},
		"with a bearer key":        {http.Header{"Authorization": {"Bearer ABSK"}}, nil, false},
	} {
		p := proxy(t)
		p.keys = c.keys
		req := &request.Request{
			Header: c.header, Target: route.Target{Upstream: "bedrock", Format: bedrock.Format}, Provider: bedrock.Converse{}, Body: &request.Body{Bytes: []byte(broken)},
		}
		if body, changes := p.Repair(req, "session"); (body == req.Body) != c.stays || (changes == "") != c.stays {
			t.Errorf("%s: repaired %q", name, changes)
		}
		if body := p.Hint(req, req.Body, "HINT", provider.Head, &checkpb.Finding{}); (body == req.Body) != c.stays {
			t.Errorf("%s: hinted to %s", name, body.Bytes)
		}
		if none := testutil.ToFloat64(p.hints.WithLabelValues("no-place")); (none == 1) != c.stays {
			t.Errorf("%s: %v hints without a place", name, none)
		}
	}
}
