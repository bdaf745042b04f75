package e2e

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// realtime is a WebSocket upstream that says everything back, and first who
// called. closed is closed when a connection of it ends.
func realtime(t *testing.T) (url string, closed <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}})
		if err != nil {
			return
		}
		conn.SetReadLimit(2 << 20)
		defer func() { ended <- struct{}{} }()
		defer func() { _ = conn.CloseNow() }()
		ctx := context.WithoutCancel(r.Context())
		err = conn.Write(ctx, websocket.MessageText, []byte(r.RequestURI+" "+strings.Join(keysOf(r.Header), " ")))
		for err == nil {
			var kind websocket.MessageType
			var data []byte
			if kind, data, err = conn.Read(ctx); err == nil {
				err = conn.Write(ctx, kind, data)
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, ended
}

// dial opens a WebSocket through the gateway and reads who called.
func dial(t *testing.T, url string, header http.Header) (conn *websocket.Conn, caller string) {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: header, Subprotocols: []string{"realtime"}})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, read(t, conn)
}

func read(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	_, data, err := conn.Read(t.Context())
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return string(data)
}

func TestWebSocketPassesBothWays(t *testing.T) {
	t.Parallel()
	upstream, closed := realtime(t)
	url := start(t, upstream).URL()
	conn, caller := dial(t, url+"/v1/realtime?model=m", http.Header{"Authorization": {"Bearer sk-one"}})
	if caller != "/v1/realtime?model=m Authorization: Bearer sk-one" || conn.Subprotocol() != "realtime" {
		t.Errorf("the upstream saw %q, protocol %q", caller, conn.Subprotocol())
	}
	conn.SetReadLimit(2 << 20)
	for i, text := range []string{"hello", strings.Repeat("x", 1<<20), ""} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, conn); got != text {
			t.Errorf("message %d came back with %d bytes, want %d", i, len(got), len(text))
		}
	}
	if err := conn.Close(websocket.StatusNormalClosure, "done"); err != nil {
		t.Errorf("close: %v", err)
	}
	<-closed
}

func TestWebSocketIsLetInByKeyAndHasTheProvidersPutIn(t *testing.T) {
	t.Parallel()
	upstream, _ := realtime(t)
	url := start(t, upstream, injecting(t, upstream), guarded(t)).URL()
	if a := send(t, url, call{http.MethodGet, "/v1/realtime", "", http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}}); a.status != http.StatusUnauthorized {
		t.Errorf("without a key: status %d", a.status)
	}
	_, caller := dial(t, url+"/v1/realtime", http.Header{"X-Unloop-Key": {aliceKey}})
	if caller != "/v1/realtime Authorization: Bearer "+providerKey {
		t.Errorf("the upstream saw %q", caller)
	}
}

func TestWebSocketEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	upstream, closed := realtime(t)
	s, stop := startStoppable(t, upstream)
	conn, _ := dial(t, s.URL()+"/v1/realtime", nil)
	stop()
	<-closed
	if _, _, err := conn.Read(t.Context()); err == nil {
		t.Error("the client's connection is still open")
	}
}

// tlsUpstream speaks HTTP/2 over TLS, and is trusted by the returned edit.
func tlsUpstream(t *testing.T, handler http.HandlerFunc) (url string, trusted func(*system.Config)) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of clients without trust
	server.StartTLS()
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, func(cfg *system.Config) { cfg.Gateway.UpstreamCA = file }
}

func TestUpstreamOverTLSIsSpokenToInHTTP2(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	url, trusted := tlsUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Usage")
		w.Header().Set("X-Saw", fmt.Sprintf("%s, %d bytes, trailer %q", r.Proto, len(body), r.Trailer.Get("X-Checksum")))
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
		w.Header().Set("X-Usage", "7")
	})
	gateway := start(t, url, trusted).URL()
	req, err := http.NewRequest(http.MethodPost, gateway+"/v1/chat/completions", io.NopCloser(strings.NewReader(prompt("stream").body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"X-Checksum": {"abc"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if want := fmt.Sprintf("HTTP/2.0, %d bytes, trailer %q", len(prompt("stream").body), "abc"); res.Header.Get("X-Saw") != want {
		t.Errorf("the upstream saw %s, want %s", res.Header.Get("X-Saw"), want)
	}
	for i := range 3 {
		chunk := make([]byte, len("data: 0\n\n"))
		if _, err := io.ReadFull(res.Body, chunk); err != nil {
			t.Fatalf("chunk %d: %v", i, err)
		}
		next <- struct{}{}
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.Trailer.Get("X-Usage") != "7" {
		t.Errorf("trailer %q, %v", res.Trailer.Get("X-Usage"), err)
	}
}

func TestUpstreamWithAnUnknownCertificateIsNotTalkedTo(t *testing.T) {
	t.Parallel()
	url, _ := tlsUpstream(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	if a := send(t, start(t, url).URL(), prompt("hello")); a.status != http.StatusBadGateway {
		t.Errorf("status %d", a.status)
	}
}

func TestTrailersOfLargeBodiesArrive(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%d %s", n, r.Trailer.Get("X-Checksum"))
	}))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL, func(cfg *system.Config) { cfg.Gateway.MaxInspectBytes = 1000 }).URL()
	for _, size := range []int{10, 100_000} {
		req, err := http.NewRequest(http.MethodPost, url+"/v1/files", io.NopCloser(strings.NewReader(strings.Repeat("x", size))))
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"X-Checksum": {"abc"}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := fmt.Sprintf("%d abc", size); err != nil || string(body) != want {
			t.Errorf("the upstream saw %q (%v), want %q", body, err, want)
		}
	}
}

// The gateway reads a body before it asks the upstream, so it is the gateway
// that says 100; the upstream is asked again before it gets the body.
func TestExpectationsAreMetOnBothSides(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/refused" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s", r.Header.Get("Expect"), body)
	}))
	t.Cleanup(upstream.Close)
	url := start(t, upstream.URL).URL()
	for path, want := range map[string]string{"/v1/taken": "100-continue hello", "/v1/refused": ""} {
		status, body := expecting(t, url, path, "hello")
		if body != want || (status == http.StatusOK) != (want != "") {
			t.Errorf("%s: status %d, %q; want %q", path, status, body, want)
		}
	}
}

// expecting sends a body once it was told to go on.
func expecting(t *testing.T, url, path, body string) (status int, answer string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, len(body))
	from := bufio.NewReader(conn)
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	told := make([]byte, len(goOn))
	if _, err := io.ReadFull(from, told); err != nil || string(told) != goOn {
		t.Fatalf("%s: %q, %v; want %q before the body is sent", path, told, err, goOn)
	}
	_, _ = io.WriteString(conn, body)
	for {
		res, err := http.ReadResponse(from, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusContinue { // which is the upstream's own
			return res.StatusCode, string(text)
		}
	}
}
