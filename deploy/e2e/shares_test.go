package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/unloop/unloop/deploy/unloop/system"
)

// of returns the call as one of another caller.
func (c call) of(caller string) call { return c.with("Authorization", "Bearer "+caller) }

// sized is a call with a prompt of about so many bytes.
func sized(n int) call { return prompt(strings.Repeat("a few words ", n/12)) }

// memory bounds the memory for bodies.
func memory(bytes int64) func(*system.Config) {
	return func(cfg *system.Config) { cfg.Gateway.MaxBodyMemory = bytes }
}

// unfinished opens a connection with the beginning of a request, and leaves it open until
// the test ends.
func unfinished(t *testing.T, url, header, begin string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer slow\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", header, begin)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// One client stops in the middle of a large body. The bodies of others come in meanwhile,
// and the rest of its own later.
func TestABodyThatStopsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	body := sized(1500 << 10).body
	conn := unfinished(t, url, fmt.Sprint("Content-Length: ", len(body)), body[:600<<10])
	for i, size := range []int{20, 900 << 10, 1200 << 10, 4 << 20} {
		if a := send(t, url, sized(size).of(fmt.Sprint("fast-", i))); a.status != http.StatusOK {
			t.Errorf("a body of %d bytes: status %d: %s", size, a.status, a.body)
		}
	}
	_, _ = io.WriteString(conn, body[600<<10:])
	if status, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(status, "HTTP/1.1 200") {
		t.Errorf("the one that stopped: %q, %v", status, err)
	}
}

// One caller has many connections. Each announces a large body and sends a byte.
func TestACallerThatAnnouncesMuchHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"announced": "Content-Length: 1048576", "in chunks": "Transfer-Encoding: chunked"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, echo(t), memory(32<<20)).URL()
			for range 300 {
				unfinished(t, url, header, "1\r\n{\r\n")
			}
			for i, size := range []int{20, 2000, 100_000, 1200 << 10} {
				if a := send(t, url, sized(size).of(fmt.Sprint("honest-", i))); a.status != http.StatusOK {
					t.Errorf("a body of %d bytes: status %d: %s", size, a.status, a.body)
				}
			}
		})
	}
}

// Few compressed bytes become many, which are held to the same bound, and to the share of
// their caller.
func TestDecodedBodiesAreHeldToTheBound(t *testing.T) {
	t.Parallel()
	const bound, clients = 64 << 20, 16
	text := sized(7 << 20).body
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	arrived, answer := make(chan struct{}, clients), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Content-Encoding") != "" {
			arrived <- struct{}{}
			<-answer
		}
	}))
	t.Cleanup(upstream.Close)
	s := start(t, upstream.URL, memory(bound), policies(t, "bundle_version: 1\npolicies: [{id: p, spec: {tool: {}}}]\n"))
	var all sync.WaitGroup
	var refused, passed atomic.Int64
	for range clients {
		all.Go(func() {
			a, err := trySend(s.URL(), chat(zipped.String()).with("Content-Encoding", "gzip").of("zip"))
			switch {
			case err == nil && a.status == http.StatusOK:
				passed.Add(1)
			case err == nil && a.status == http.StatusServiceUnavailable:
				refused.Add(1)
			default:
				t.Errorf("status %d, %v", a.status, err)
			}
		})
	}
	fit := bound / 2 / len(text)
	for range fit {
		<-arrived
	}
	if held := metric(t, s, "unloop_gateway_body_bytes"); held < float64(fit*len(text)) || held > bound/2+clients*64<<10 {
		t.Errorf("%.0f bytes are held for %d bodies of %d bytes, of one caller with half of %d", held, fit, len(text), bound)
	}
	if a := send(t, s.URL(), sized(1<<20).of("honest")); a.status != http.StatusOK {
		t.Errorf("another caller gets status %d: %s", a.status, a.body)
	}
	if n := len(arrived); n != 0 {
		t.Errorf("%d bodies more than fit were decoded", n)
	}
	close(answer)
	all.Wait()
	if passed.Load() < int64(fit) || passed.Load()+refused.Load() != clients {
		t.Errorf("%d passed and %d were refused of %d", passed.Load(), refused.Load(), clients)
	}
}

// While one caller floods the gateway with large requests, another one's small requests are
// checked, each of them, and in turn: not after all that the flood has sent before.
func TestAFloodDelaysItsOwnCaller(t *testing.T) {
	t.Parallel()
	const connections, honest = 32, 20
	url := start(t, echo(t)).URL()
	var flood sync.WaitGroup
	var answered, asked atomic.Int64
	begun, stop := make(chan struct{}), make(chan struct{})
	for range connections {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var messages strings.Builder
				for messages.Len() < 500_000 {
					fmt.Fprintf(&messages, `{"role":"user","content":"question %d-%d"},{"role":"assistant","content":"answer"},`, asked.Add(1), messages.Len())
				}
				if _, err := trySend(url, chat(`{"model":"m","messages":[`+messages.String()+`{"role":"user","content":"last"}]}`).of("flood")); err != nil {
					t.Error(err)
				}
				if answered.Add(1) == connections {
					close(begun)
				}
			}
		})
	}
	<-begun
	before := answered.Load()
	for i := range honest {
		a := send(t, url, prompt(fmt.Sprintf("honest question %d about %c", i, 'a'+i)).of(fmt.Sprint("honest-", i)))
		if degraded := a.header.Get("X-Loop-Degraded"); a.status != http.StatusOK || degraded != "" && degraded != "semantic" {
			t.Errorf("request %d: status %d, degraded %q: %s", i, a.status, degraded, a.body)
		}
	}
	// In the order of arrival each would wait for all connections. How many the flood is
	// ahead while a machine is busy depends on its scheduler.
	if n := answered.Load() - before; n > connections/2*honest {
		t.Errorf("while %d small requests were answered one after another, %d of the flood were", honest, n)
	}
	close(stop)
	flood.Wait()
}

// An answer may take minutes. The memory of its request is free meanwhile.
func TestTheMemoryOfABodyIsFreeWhileItsAnswerComes(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-end
	}))
	t.Cleanup(upstream.Close)
	s := start(t, upstream.URL)
	done := make(chan int)
	go func() {
		a, _ := trySend(s.URL(), sized(1<<20))
		done <- a.status
	}()
	awaitMetric(t, s, `unloop_gateway_upstream_answers_total{status="2xx",upstream="openai"}`, func(n float64) bool { return n == 1 })
	awaitMetric(t, s, "unloop_gateway_body_bytes", func(held float64) bool { return held == 0 })
	close(end)
	if status := <-done; status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}
