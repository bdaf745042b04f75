package email

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/render"
	"github.com/unloop/unloop/notifier/internal/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a mail server that takes messages after a login.
type server struct {
	// mechanisms are those of AUTH; starttls says whether encryption is offered, and
	// implicit whether it begins with the connection.
	mechanisms         string
	starttls, implicit bool

	port   int
	tls    *tls.Config
	client *tls.Config
	// logins are the credentials, and got the messages, that arrived.
	logins, got chan string
}

func (s *server) start(t *testing.T) {
	t.Helper()
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	s.tls = &tls.Config{Certificates: https.TLS.Certificates}
	s.client = &tls.Config{RootCAs: roots, ServerName: "example.com"}
	s.logins, s.got = make(chan string, 4), make(chan string, 4)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	if s.implicit {
		listener = tls.NewListener(listener, s.tls)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.session(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
}

// session speaks as much SMTP as the test needs.
func (s *server) session(conn net.Conn) {
	in := bufio.NewReader(conn)
	say := func(line string) { fmt.Fprint(conn, line+"\r\n") }
	read := func() string { line, _ := in.ReadString('\n'); return strings.TrimSpace(line) }
	decode := func(text string) string { b, _ := base64.StdEncoding.DecodeString(text); return string(b) }
	say("220 test")
	for {
		line := read()
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "":
			return
		case "EHLO":
			say("250-test")
			if s.starttls {
				say("250-STARTTLS")
			}
			say("250 AUTH " + s.mechanisms)
		case "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, s.tls)
			in = bufio.NewReader(conn)
		case "AUTH":
			s.auth(rest, say, read, decode)
		case "DATA":
			say("354 go on")
			var body strings.Builder
			for line := read(); line != "."; line = read() {
				body.WriteString(line + "\n")
			}
			s.got <- body.String()
			say("250 ok")
		case "QUIT":
			return // without an answer: the message is accepted
		default:
			say("250 ok")
		}
	}
}

func (s *server) auth(rest string, say func(string), read func() string, decode func(string) string) {
	if initial, ok := strings.CutPrefix(rest, "PLAIN "); ok {
		s.logins <- strings.ReplaceAll(decode(initial), "\x00", ":")
	} else {
		say("334 " + base64.StdEncoding.EncodeToString([]byte("Username:")))
		user := decode(read())
		say("334 " + base64.StdEncoding.EncodeToString([]byte("Password:")))
		s.logins <- ":" + user + ":" + decode(read())
	}
	say("235 ok")
}

func (s *server) sink(security Security, user string) *Email {
	return New(Config{
		Host: "127.0.0.1", Port: s.port, Security: security, User: user, Password: "s3cret", From: "unloop@example.com", To: []string{"ops@example.com"},
		TLSConfig: s.client,
	}, outbound.NewDialer([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}))
}

func TestMailsAreEncryptedAndAuthenticated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		server   server
		security Security
	}{
		"STARTTLS and PLAIN": {server{mechanisms: "PLAIN LOGIN", starttls: true}, STARTTLS},
		"STARTTLS and LOGIN": {server{mechanisms: "LOGIN XOAUTH2", starttls: true}, ""},
		"TLS and PLAIN":      {server{mechanisms: "PLAIN", implicit: true}, TLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &tt.server
			s.start(t)
			if err := s.sink(tt.security, "unloop").Send(t.Context(), render.Example()); err != nil {
				t.Fatal(err)
			}
			if login := <-s.logins; login != ":unloop:s3cret" {
				t.Errorf("login %q", login)
			}
			if body := <-s.got; !strings.Contains(body, "Subject: [Unloop] An agent of acme") {
				t.Errorf("message %s", body)
			}
		})
	}
}

// Where a server does not encrypt, nothing is sent to it, least of all the password.
func TestNothingIsSentInTheClear(t *testing.T) {
	t.Parallel()
	s := &server{mechanisms: "PLAIN LOGIN"}
	s.start(t)
	err := s.sink(STARTTLS, "unloop").Send(t.Context(), render.Example())
	var e *sink.Error
	if !errors.As(err, &e) || e.Kind != sink.Retry || len(s.logins)+len(s.got) != 0 {
		t.Errorf("got %v, %d logins, %d messages", err, len(s.logins), len(s.got))
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	t.Parallel()
	s := &server{mechanisms: "PLAIN", starttls: true}
	s.start(t)
	s.client = nil
	err := s.sink(STARTTLS, "unloop").Send(t.Context(), render.Example())
	if err == nil || !strings.Contains(err.Error(), "certificate") || len(s.logins) != 0 {
		t.Errorf("got %v", err)
	}
}
