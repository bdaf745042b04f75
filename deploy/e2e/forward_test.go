package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// rawUpstream answers each request with 200 and hands out the request as it
// stood on the wire.
func rawUpstream(t *testing.T) (url string, requests <-chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	seen := make(chan string, 16)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				var wire strings.Builder
				r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &wire)))
				if err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					seen <- wire.String()
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String(), seen
}

// everywhere sends all routes to one upstream.
func everywhere(upstream string) func(*system.Config) {
	return func(cfg *system.Config) {
		cfg.Gateway.Upstream = map[string]string{"openai": upstream, "default": upstream}
	}
}

// raw sends a request as it stands and returns the answer's status line.
func raw(t *testing.T, url, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	status, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(status)
}

func TestUpstreamSeesWhatTheClientSentAndNothingElse(t *testing.T) {
	t.Parallel()
	upstream, seen := rawUpstream(t)
	s := start(t, upstream, everywhere(upstream))
	host := strings.TrimPrefix(upstream, "http://")
	for name, c := range map[string]struct{ line, headers, body string }{
		"a bare GET":                    {"GET /v1/models", "", ""},
		"a query that can't be parsed":  {"GET /v1/x?a=%zz;b&&c=1+1%20", "", ""},
		"an escaped path":               {"GET /v1/files/a%2Fb%20c/../d", "", ""},
		"forwarding headers of its own": {"GET /v1/y", "Forwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n", ""},
		"a user agent, keys, encodings": {"GET /v1/z", "Accept-Encoding: br\r\nApi-Key: k\r\nAuthorization: Bearer sk\r\nUser-Agent: me/1\r\n", ""},
		"a body with odd spacing":       {"POST /v1/chat/completions", "Content-Length: 61\r\n", "{ \"messages\" : [ {\"role\":\"user\", \"content\":\"\\u00e4\\/\"} ] \r\n}  "},
		"a body that is no JSON":        {"POST /v1/chat/completions", "Content-Length: 7\r\n", "\x00\xff{\"a\"]"},
		"a DELETE with a body":          {"DELETE /other/place", "Content-Length: 3\r\n", "a=b"},
	} {
		if c.body != "" {
			c.headers = "Content-Length: " + fmt.Sprint(len(c.body)) + "\r\n" + strings.Join(headerLines(c.headers, "Content-Length"), "")
		}
		if got := raw(t, s.URL(), c.line+" HTTP/1.1\r\nHost: localhost\r\n"+c.headers+"\r\n"+c.body); got != "HTTP/1.1 200 OK" {
			t.Errorf("%s: %s", name, got)
			continue
		}
		want := c.line + " HTTP/1.1\r\nHost: " + host + "\r\n" + c.headers + "\r\n" + c.body
		if diff := cmp.Diff(sortedHeaders(want), sortedHeaders(<-seen)); diff != "" {
			t.Errorf("%s (-sent +received):\n%s", name, diff)
		}
	}
}

// headerLines are the lines of a header block, but one header's.
func headerLines(block, without string) []string {
	var kept []string
	for line := range strings.SplitAfterSeq(block, "\r\n") {
		if line != "" && !strings.HasPrefix(line, without+":") {
			kept = append(kept, line)
		}
	}
	return kept
}

// sortedHeaders is a request's parts with the headers, whose order HTTP does
// not define, by name.
func sortedHeaders(request string) map[string]string {
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	line, headers, _ := strings.Cut(head, "\r\n")
	parts := map[string]string{"line": line, "body": body}
	for header := range strings.SplitSeq(headers, "\r\n") {
		name, value, _ := strings.Cut(header, ": ")
		parts["header "+name] += value
	}
	return parts
}

func TestAnswersPassChunkByChunkWithTrailers(t *testing.T) {
	t.Parallel()
	got := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Usage")
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusAccepted)
		flusher := http.NewResponseController(w)
		for i := range 5 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = flusher.Flush()
			<-got // the client has this chunk before the next one is made
		}
		w.Header().Set("X-Usage", "7")
	}))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL).URL()
	res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(prompt("stream").body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for i := range 5 {
		chunk := make([]byte, len("data: 0\n\n"))
		if _, err := io.ReadFull(res.Body, chunk); err != nil || string(chunk) != fmt.Sprintf("data: %d\n\n", i) {
			t.Fatalf("chunk %d: %q, %v", i, chunk, err)
		}
		got <- struct{}{}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the chunks: %q, %v", rest, err)
	}
	if res.StatusCode != http.StatusAccepted || res.Trailer.Get("X-Usage") != "7" {
		t.Errorf("status %d, trailer %q", res.StatusCode, res.Trailer.Get("X-Usage"))
	}
}

// An upstream that knows how long its answer is may still take its time.
func TestPartsOfAnAnswerOfKnownLengthDoNotWaitForTheRest(t *testing.T) {
	t.Parallel()
	read := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "later")
	}))
	t.Cleanup(upstream.Close)
	s := start(t, upstream.URL, everywhere(upstream.URL))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	part := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, part); err != nil || string(part) != "first" {
		t.Fatalf("first part %q, %v", part, err)
	}
	close(read)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "later" {
		t.Errorf("the rest %q, %v", rest, err)
	}
}

func TestClientThatLeavesCancelsTheUpstreamCall(t *testing.T) {
	t.Parallel()
	arrived, canceled := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		close(arrived)
		<-r.Context().Done()
		close(canceled)
	}))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL).URL()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(prompt("stream").body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	<-arrived
	leave()
	<-canceled
}

func TestUpstreamThatDiesMidStreamIsSeenByTheClient(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL).URL()
	res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(prompt("stream").body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if string(body) != "data: first\n\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v; want the first chunk and then an unexpected end", body, err)
	}
}

func TestUpstreamThatIsAwayIsABadGatewayInTheFormatsShape(t *testing.T) {
	t.Parallel()
	url := start(t, "http://127.0.0.1:1").URL()
	a := send(t, url, prompt("hello"))
	if a.status != http.StatusBadGateway || a.refusal(t).Error.Code != "upstream_unreachable" || !strings.Contains(a.refusal(t).Error.Message, "at 127.0.0.1:1 could not be reached: connection refused") {
		t.Errorf("status %d, %s", a.status, a.body)
	}
	if a := send(t, url, call{http.MethodGet, "/nowhere", "", nil}); a.status != http.StatusNotFound || a.refusal(t).Error.Code != "unknown_path" {
		t.Errorf("unknown path: status %d, %s", a.status, a.body)
	}
	a = send(t, url, call{http.MethodPost, "/chat/completions", prompt("hello").body, nil})
	if want := "the base URL lacks /v1; it must be " + url + "/v1"; a.status != http.StatusNotFound || !strings.Contains(a.refusal(t).Error.Message, want) {
		t.Errorf("a base URL without /v1: status %d, %s", a.status, a.body)
	}
}
