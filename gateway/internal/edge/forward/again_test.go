package forward

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/route"
)

// frames is the side of a server in HTTP/2, frame by frame.
type frames struct{ net.Conn }

// Types of frames.
const (
	dataFrame, headersFrame, resetFrame, settingsFrame, goAwayFrame = 0, 1, 3, 4, 7
)

// write writes a frame.
func (f frames) write(kind, flags byte, stream uint32, payload ...byte) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	_, _ = f.Write(append(head, payload...))
}

// readRequest returns the stream and the body of the next request.
func (f frames) readRequest() (stream uint32, body []byte, err error) {
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(f, head); err != nil {
			return 0, nil, err
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		if _, err := io.ReadFull(f, payload); err != nil {
			return 0, nil, err
		}
		if head[3] != dataFrame {
			continue
		}
		body = append(body, payload...)
		if endOfStream := head[4]&1 != 0; endOfStream {
			return binary.BigEndian.Uint32(head[5:]), body, nil
		}
	}
}

// secureUpstream serves HTTP/2 connections, and returns the target that leads there and a
// proxy that trusts it.
func secureUpstream(t *testing.T, serve func(frames)) (route.Target, *Proxy) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{NextProtos: []string{"h2"}}
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
			if _, err := io.ReadFull(conn, preface); err == nil {
				f := frames{conn}
				f.write(settingsFrame, 0, 0)
				serve(f)
			}
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	transport, err := NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return route.Target{Upstream: "one", URL: at}, New(transport, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

// post forwards a body, and returns the status of the answer and the error of the upstream.
func post(p *Proxy, target route.Target, body *request.Body, header http.Header) (int, error) {
	o := &observer{}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body.Bytes)))
	r.Header, r.ContentLength = header, body.Length
	w := httptest.NewRecorder()
	p.Forward(w, r, Request{Target: target, Body: body, Observer: o})
	return w.Code, o.failed
}

func bodyOf(text string) *request.Body {
	return &request.Body{Bytes: []byte(text), Length: int64(len(text))}
}

// A provider that rotates connections ends them in the midst of requests, which it has not
// taken then.
func TestARequestThatAnHTTP2UpstreamDidNotTakeIsSentAgain(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("body ", 1000)
	for name, refuse := range map[string]func(f frames, stream uint32){
		"refused stream": func(f frames, stream uint32) { f.write(resetFrame, 0, stream, 0, 0, 0, 7) },
		"go away":        func(f frames, _ uint32) { f.write(goAwayFrame, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			target, p := secureUpstream(t, func(f frames) {
				for {
					stream, body, err := f.readRequest()
					if err != nil {
						return
					}
					if requests.Add(1) == 1 {
						refuse(f, stream)
						continue
					}
					status := byte(0x88) // :status: 200
					if string(body) != text {
						status = 0x8c // :status: 400
					}
					const endOfStreamAndHeaders = 5
					f.write(headersFrame, endOfStreamAndHeaders, stream, status)
				}
			})
			if status, err := post(p, target, bodyOf(text), http.Header{}); status != http.StatusOK || err != nil || requests.Load() != 2 {
				t.Errorf("answered %d after %d requests: %v", status, requests.Load(), err)
			}
		})
	}
}

// staleUpstream answers the first request of a connection, and ends it with a text instead
// of an answer to the second one. It returns the target that leads there, and the number of
// requests that came.
func staleUpstream(t *testing.T, last string) (route.Target, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				from := bufio.NewReader(conn)
				for _, answer := range []string{"HTTP/1.1 204 No Content\r\n\r\n", last} {
					r, err := http.ReadRequest(from)
					if err != nil {
						return
					}
					if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" {
						answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
					}
					requests.Add(1)
					_, _ = io.WriteString(conn, answer)
				}
			}()
		}
	}()
	return route.Target{Upstream: "one", URL: &url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/"}}, &requests
}

const gaveUp = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

func TestARequestOnAConnectionThatWasIdleForTooLongIsSentAgain(t *testing.T) {
	t.Parallel()
	idempotent := http.Header{"Idempotency-Key": {"k"}}
	for name, c := range map[string]struct {
		last   string
		header http.Header
		body   *request.Body
		status int
		lost   bool
	}{
		"closed":                       {"", idempotent, bodyOf("body"), http.StatusNoContent, false},
		"closed, may have been taken":  {"", http.Header{}, bodyOf("body"), http.StatusBadGateway, true},
		"gave up":                      {gaveUp, http.Header{}, bodyOf("body"), http.StatusNoContent, false},
		"gave up, body is passing":     {gaveUp, http.Header{}, nil, http.StatusRequestTimeout, false},
		"answers 408 and stays":        {strings.Replace(gaveUp, "Connection: close\r\n", "", 1), http.Header{}, bodyOf("body"), http.StatusRequestTimeout, false},
		"answers otherwise and closes": {strings.Replace(gaveUp, "408 Request Timeout", "500 Error", 1), http.Header{}, bodyOf("body"), http.StatusInternalServerError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, requests := staleUpstream(t, c.last)
			p := proxy(t)
			if status, err := post(p, target, bodyOf("body"), http.Header{}); status != http.StatusNoContent {
				t.Fatalf("the first request: %d, %v", status, err)
			}
			body := c.body
			if body == nil {
				body = &request.Body{Bytes: []byte("bo"), Rest: strings.NewReader("dy"), Length: 4}
			}
			status, err := post(p, target, body, c.header)
			if status != c.status || (err != nil) != c.lost {
				t.Errorf("answered %d after %d requests: %v", status, requests.Load(), err)
			}
		})
	}
}

// A server that answers a fresh connection with 408 means the request.
func TestA408OnAFreshConnectionIsPassedOn(t *testing.T) {
	t.Parallel()
	requests := 0
	target := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestTimeout)
	})
	if status, err := post(proxy(t), target, bodyOf("body"), http.Header{}); status != http.StatusRequestTimeout || requests != 1 || err != nil {
		t.Errorf("answered %d after %d requests, %v", status, requests, err)
	}
}
