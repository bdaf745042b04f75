package direct

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// errNext is the error of the other transport of tests.
var errNext = errors.New("the other transport was asked")

type next struct{}

func (next) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNext }

// transport returns a transport that counts the connections that it opens.
func transport(t testing.TB) (*Transport, *atomic.Int64) {
	t.Helper()
	var dials atomic.Int64
	var dialer net.Dialer
	tr := New(Config{
		Next: next{}, IdleTimeout: time.Minute, IdlePerHost: 2,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return dialer.DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(tr.CloseIdleConnections)
	return tr, &dials
}

// post returns a request as the gateway sends one.
func post(ctx context.Context, t testing.TB, to, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	return req
}

// talk sends a request and returns the body of its answer.
func talk(t testing.TB, tr *Transport, req *http.Request) string {
	t.Helper()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// The same requests get the same answers over the standard library's transport, and the
// server sees the same of them.
func TestRequestsAndAnswersAreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, URI, Host, Body string
		Length                  int64
		Header                  http.Header
	}
	var got seen
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.RequestURI, r.Host, string(body), r.ContentLength, r.Header}
		switch r.URL.Path {
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		case "/chunks":
			w.Header().Set("Trailer", "X-Sum")
			for range 3 {
				_, _ = io.WriteString(w, strings.Repeat("x", 5000))
				_ = http.NewResponseController(w).Flush()
			}
			w.Header().Set("X-Sum", "15000")
		case "/close":
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "bye")
		default:
			w.Header()["X-Two"] = []string{"1", "2"}
			_, _ = w.Write(body)
		}
	}))
	defer server.Close()
	library := &http.Transport{DisableCompression: true}
	defer library.CloseIdleConnections()
	type answer struct {
		Seen    seen
		Status  int
		Length  int64
		Header  http.Header
		Body    string
		Trailer http.Header
	}
	ask := func(tr http.RoundTripper, method, path, body string) answer {
		req := post(t.Context(), t, server.URL+path, body)
		if req.Method = method; body == "" {
			req.Body = http.NoBody
		}
		req.Header = http.Header{"X-Many": {"a", "b"}, "User-Agent": {""}, "Authorization": {"Bearer x"}}
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
		}
		delete(res.Header, "Date")
		return answer{got, res.StatusCode, res.ContentLength, res.Header, string(all), res.Trailer}
	}
	tr, _ := transport(t)
	for _, c := range [][3]string{
		{"POST", "/echo?a=1;b", "hello"}, {"POST", "/echo", strings.Repeat("y", MaxBody)}, {"POST", "/echo", ""}, {"GET", "/echo", ""}, {"HEAD", "/echo", ""},
		{"PUT", "/empty", "x"}, {"POST", "/chunks", "x"}, {"DELETE", "/close", ""}, {"POST", "/echo", "again"},
	} {
		if diff := cmp.Diff(ask(library, c[0], c[1], c[2]), ask(tr, c[0], c[1], c[2])); diff != "" {
			t.Errorf("%s %s (-library +direct):\n%s", c[0], c[1], diff)
		}
	}
}

func TestConnectionsAreUsedAgainWhereTheyCanBe(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/close" {
			w.Header().Set("Connection", "close")
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer server.Close()
	tr, dials := transport(t)
	for i, c := range []struct {
		path  string
		dials int64
	}{{"/", 1}, {"/", 1}, {"/close", 1}, {"/", 2}, {"/", 2}} {
		if got := talk(t, tr, post(t.Context(), t, server.URL+c.path, "x")); got != "ok" || dials.Load() != c.dials {
			t.Errorf("request %d: %q after %d connections, want %d", i, got, dials.Load(), c.dials)
		}
	}
	server.CloseClientConnections() // as a server that is tired of idle connections
	await(t, func() bool { return !tr.pool.idle[address(parsed(t, server.URL))][0].alive() })
	if got := talk(t, tr, post(t.Context(), t, server.URL, "x")); got != "ok" || dials.Load() != 3 {
		t.Errorf("after the server closed the connection: %q, %d connections", got, dials.Load())
	}
	unread, err := tr.RoundTrip(post(t.Context(), t, server.URL, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unread.Body.Close(); err != nil {
		t.Error(err)
	}
	if _, err := unread.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read after the end: %v", err)
	}
	if talk(t, tr, post(t.Context(), t, server.URL, "x")); dials.Load() != 4 {
		t.Errorf("a connection with an answer that nobody read was used again: %d connections", dials.Load())
	}
}

func parsed(t testing.TB, addr string) *url.URL {
	t.Helper()
	u, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// await returns once a condition holds.
func await(t testing.TB, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("waited for nothing")
		}
	}
}

func TestManyRequestsAtOnceKeepFewConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	tr, _ := transport(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				want := fmt.Sprintf("%d of %d", j, i)
				if got := talk(t, tr, post(t.Context(), t, server.URL, want)); got != want {
					t.Errorf("answer %q, want %q", got, want)
				}
			}
		})
	}
	all.Wait()
	if n := len(tr.pool.idle[address(parsed(t, server.URL))]); n > 2 {
		t.Errorf("%d idle connections, want at most 2", n)
	}
	tr.CloseIdleConnections()
	if len(tr.pool.idle) != 0 {
		t.Errorf("%v stay open", tr.pool.idle)
	}
}

// scripted is a server that reads a request and says what the test wants.
func scripted(t testing.TB, serve func(c net.Conn, requests *bufio.Reader)) string {
	t.Helper()
	var listening net.ListenConfig
	l, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return "http://" + l.Addr().String()
}

// taken reads a request whole.
func taken(requests *bufio.Reader) bool {
	req, err := http.ReadRequest(requests)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

func TestAnswersBeforeTheRealOneArePassedOn(t *testing.T) {
	t.Parallel()
	at := scripted(t, func(c net.Conn, requests *bufio.Reader) {
		for taken(requests) {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	tr, dials := transport(t)
	var early []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		early = append(early, fmt.Sprint(code, header.Get("Link")))
		return nil
	}})
	if got := talk(t, tr, post(ctx, t, at, "x")); got != "ok" || strings.Join(early, ",") != "100,103x" {
		t.Errorf("got %q after %q", got, early)
	}
	if got := talk(t, tr, post(t.Context(), t, at, "x")); got != "ok" || dials.Load() != 1 {
		t.Errorf("without anybody who waits for them: %q, %d connections", got, dials.Load())
	}
	refuse := errors.New("enough")
	ctx = httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { return refuse }})
	if _, err := tr.RoundTrip(post(ctx, t, at, "x")); !errors.Is(err, refuse) { //nolint:bodyclose // there is no answer
		t.Errorf("refused: %v", err)
	}
}

func TestFaultyAnswersAreErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		want   error // nil for any
	}{
		"none":               {"", io.EOF},
		"no HTTP":            {"SSH-2.0\r\n\r\n", nil},
		"cut off":            {"HTTP/1.1 200 OK\r\nX: ", io.ErrUnexpectedEOF},
		"endless header":     {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader), errHeader},
		"another protocol":   {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", errProtocol},
		"content is cut off": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := scripted(t, func(conn net.Conn, requests *bufio.Reader) {
				if taken(requests) {
					_, _ = io.WriteString(conn, c.answer)
				}
			})
			tr, dials := transport(t)
			res, err := tr.RoundTrip(post(t.Context(), t, at, "x"))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if n := dials.Load(); n != 1 || len(tr.pool.idle) > 0 {
				t.Errorf("%d connections were opened, of which %v are kept", n, tr.pool.idle)
			}
		})
	}
}

// A client that leaves ends the request, whether it waits for the answer or reads it.
func TestEndOfTheContextEndsARequest(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 2)
	at := scripted(t, func(c net.Conn, requests *bufio.Reader) {
		if taken(requests) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
			_, _ = requests.ReadByte() // until the gateway closes
			gone <- struct{}{}
		}
	})
	tr, _ := transport(t)
	ctx, leave := context.WithCancelCause(t.Context())
	res, err := tr.RoundTrip(post(ctx, t, at, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	why := errors.New("the client left")
	leave(why)
	if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, why) {
		t.Errorf("reading says %v", err)
	}
	<-gone

	waiting := make(chan struct{})
	silent := scripted(t, func(_ net.Conn, requests *bufio.Reader) {
		if taken(requests) {
			close(waiting)
			_, _ = requests.ReadByte()
			gone <- struct{}{}
		}
	})
	ctx, leave = context.WithCancelCause(t.Context())
	go func() { <-waiting; leave(why) }()
	if _, err := tr.RoundTrip(post(ctx, t, silent, "x")); !errors.Is(err, why) { //nolint:bodyclose // there is no answer
		t.Errorf("waiting says %v", err)
	}
	<-gone
	if len(tr.pool.idle) > 0 {
		t.Errorf("%v are kept", tr.pool.idle)
	}
}

// A server may refuse a request that it has not read.
func TestAnswerThatComesBeforeTheRequestWasRead(t *testing.T) {
	t.Parallel()
	at := scripted(t, func(c net.Conn, requests *bufio.Reader) {
		if _, err := requests.ReadString('\n'); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
			_, _ = io.Copy(io.Discard, requests)
		}
	})
	tr, _ := transport(t)
	if got := talk(t, tr, post(t.Context(), t, at, strings.Repeat("x", MaxBody))); got != "no" {
		t.Errorf("got %q", got)
	}
}

// closing is a connection whose server closes it when a request comes.
type closing struct {
	net.Conn
	written int // of a request
}

func (c *closing) Write(p []byte) (int, error) {
	_ = c.Close()
	return min(c.written, len(p)), io.ErrClosedPipe
}

// A server may close an idle connection while a request is on its way. What it has not
// seen, and what it may see twice, is sent again, and nothing else.
func TestRequestsAreSentAgainOnlyWhereTheyMayBe(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(server.Close)
	for name, c := range map[string]struct {
		written int
		used    bool
		again   bool
	}{
		"unseen":                 {0, true, true},
		"perhaps seen":           {1, true, false},
		"unseen, new connection": {0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, _ := transport(t)
			if got := talk(t, tr, post(t.Context(), t, server.URL, "x")); got != "ok" {
				t.Fatal(got)
			}
			kept := tr.pool.idle[address(parsed(t, server.URL))][0]
			kept.Conn, kept.used = &closing{kept.Conn, c.written}, c.used
			res, err := tr.RoundTrip(post(t.Context(), t, server.URL, "x"))
			if err == nil {
				_ = res.Body.Close()
			}
			if (err == nil) != c.again {
				t.Errorf("error %v, want it sent again: %v", err, c.again)
			}
		})
	}
	for _, c := range []struct {
		method, header string
		want           bool
	}{{"GET", "", true}, {"POST", "", false}, {"POST", "Idempotency-Key", true}, {"DELETE", "X-Idempotency-Key", true}, {"PUT", "", false}} {
		req := &http.Request{Method: c.method, Header: http.Header{}}
		if c.header != "" {
			req.Header[c.header] = []string{"1"}
		}
		if got := again(req, &silentError{io.EOF}); got != c.want {
			t.Errorf("%s with %q is sent again: %v", c.method, c.header, got)
		}
	}
}

func TestOtherRequestsGoToTheOtherTransport(t *testing.T) {
	t.Parallel()
	tr, _ := transport(t)
	proxied := New(Config{Next: next{}, Proxy: func(*http.Request) (*url.URL, error) { return &url.URL{Host: "proxy"}, nil }})
	for name, change := range map[string]func(*http.Request) *Transport{
		"TLS":              func(r *http.Request) *Transport { r.URL.Scheme = "https"; return tr },
		"no host":          func(r *http.Request) *Transport { r.URL.Host = ""; return tr },
		"host not ASCII":   func(r *http.Request) *Transport { r.URL.Host = "bücher.example"; return tr },
		"long body":        func(r *http.Request) *Transport { r.ContentLength = MaxBody + 1; return tr },
		"unknown length":   func(r *http.Request) *Transport { r.ContentLength = -1; return tr },
		"trailers":         func(r *http.Request) *Transport { r.Trailer = http.Header{"X": nil}; return tr },
		"upgrade":          func(r *http.Request) *Transport { r.Header.Set("Upgrade", "websocket"); return tr },
		"expects continue": func(r *http.Request) *Transport { r.Header.Set("Expect", "100-continue"); return tr },
		"CONNECT":          func(r *http.Request) *Transport { r.Method = http.MethodConnect; return tr },
		"proxy":            func(*http.Request) *Transport { return proxied },
	} {
		req := post(t.Context(), t, "http://host/", "x")
		if _, err := change(req).RoundTrip(req); !errors.Is(err, errNext) { //nolint:bodyclose // there is no answer
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool{idle: map[string][]*conn{}, timeout: time.Minute, most: 8}
		put := func() net.Conn {
			near, far := net.Pipe()
			c, err := newConn(near, "a")
			if err != nil {
				t.Fatal(err)
			}
			p.put(c)
			return far
		}
		closed := func(far net.Conn) bool {
			_ = far.SetReadDeadline(time.Now())
			_, err := far.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		first := put()
		time.Sleep(45 * time.Second) //nolint:forbidigo // the clock of the test
		second := put()
		time.Sleep(16 * time.Second) //nolint:forbidigo // the clock of the test
		synctest.Wait()
		if !closed(first) || closed(second) {
			t.Errorf("after a minute, the first is closed: %v, the second: %v", closed(first), closed(second))
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of the test
		synctest.Wait()
		if !closed(second) || len(p.idle) > 0 || p.reaping {
			t.Errorf("after two minutes %v are kept", p.idle)
		}
	})
}

// BenchmarkRoundTrip compares a request over either transport.
func BenchmarkRoundTrip(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 12<<10)
	at := scripted(b, func(c net.Conn, requests *bufio.Reader) {
		for taken(requests) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	library := &http.Transport{DisableCompression: true, WriteBufferSize: 16 << 10}
	b.Cleanup(library.CloseIdleConnections)
	tr, _ := transport(b)
	for _, c := range []struct {
		name string
		http.RoundTripper
	}{{"library", library}, {"direct", tr}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := post(b.Context(), b, at, "")
				req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				res, err := c.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					b.Fatal(err)
				}
				_ = res.Body.Close()
			}
		})
	}
}
