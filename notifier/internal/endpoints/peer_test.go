package endpoints

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// behaviour is how a service answers a message.
type behaviour int

const (
	accepts behaviour = iota
	refuses
	busy
	broken
	moved
	gone
	hangs
	floods
	cuts
)

// peer is a service that takes messages.
type peer struct {
	addr string
	mu   sync.Mutex
	does behaviour
	// got is what arrived: bodies of requests, or messages.
	got chan []byte
	// headers of the last request.
	header http.Header
	// elsewhere is where redirects lead.
	elsewhere string
	done      chan struct{}
}

func newPeer() *peer {
	return &peer{got: make(chan []byte, 64), done: make(chan struct{})}
}

func (p *peer) behave(b behaviour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.does = b
}

func (p *peer) now() behaviour {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.does
}

// httpPeer returns a service that takes messages by POST.
func httpPeer(t *testing.T) *peer {
	t.Helper()
	p := newPeer()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.header = r.Header.Clone()
		p.mu.Unlock()
		p.got <- body
		p.answer(w, r)
	}))
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	p.addr, p.elsewhere = server.Listener.Addr().String(), trap.URL
	t.Cleanup(trap.Close)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(p.done) })
	return p
}

func (p *peer) answer(w http.ResponseWriter, r *http.Request) {
	switch p.now() {
	case refuses:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "s3cretanswer")
	case busy:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
	case moved:
		http.Redirect(w, r, p.elsewhere, http.StatusMovedPermanently)
	case gone:
		w.WriteHeader(http.StatusGone)
	case hangs:
		select {
		case <-r.Context().Done():
		case <-p.done:
		}
	case floods:
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		for range 160 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	case cuts:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// smtpPeer returns a mail server without encryption.
func smtpPeer(t *testing.T) *peer {
	t.Helper()
	p := newPeer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = listener.Addr().String()
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() {
				defer conn.Close()
				p.session(conn)
			})
		}
	})
	t.Cleanup(func() {
		close(p.done)
		_ = listener.Close()
		sessions.Wait()
	})
	return p
}

// session speaks as much SMTP as a client needs.
func (p *peer) session(conn net.Conn) {
	say := func(lines ...string) { fmt.Fprint(conn, strings.Join(lines, "\r\n")+"\r\n") }
	switch p.now() {
	case hangs:
		_, _ = io.Copy(io.Discard, conn)
		return
	case cuts:
		return
	case floods:
		chunk := bytes.Repeat([]byte("220-x\r\n"), 8<<10)
		for range 180 {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
		return
	case broken:
		say("421 s3cretanswer")
		return
	}
	say("220 test")
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.ToUpper(verb) {
		case "EHLO":
			say("250-test", "250 8BITMIME")
		case "RCPT":
			say(map[behaviour]string{accepts: "250 ok", refuses: "550 s3cretanswer", busy: "451 s3cretanswer"}[p.now()])
		case "DATA":
			say("354 go on")
			p.got <- dotted(in)
			say("250 ok")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func dotted(in *bufio.Reader) []byte {
	var body []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil || string(line) == ".\r\n" {
			return body
		}
		body = append(body, line...)
	}
}

func diff(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
