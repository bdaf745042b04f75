package natskit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// file writes a file of a test, or replaces it.
func file(t *testing.T, path, text string) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.TempDir(), path)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// userKey is an nkey of a user.
func userKey(t *testing.T) (seed, public string) {
	t.Helper()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = key.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return string(raw), public
}

// pair is a certificate of an authority of its own, for loopback, in files.
type pair struct {
	cert, key string
	tls       tls.Certificate
	pool      *x509.CertPool
}

func newPair(t *testing.T) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	p := pair{
		cert: file(t, "cert.pem", string(certPEM)), key: file(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))),
		tls: tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}, pool: x509.NewCertPool(),
	}
	p.pool.AppendCertsFromPEM(certPEM)
	return p
}

// freePort is a port of a server that is started twice.
func freePort(t *testing.T) int {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", natstest.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	return addr.Port
}

// serveAs runs a server with users of its own, on a port of the test's choice.
func serveAs(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.NoSigs, opts.NoLog = "127.0.0.1", true, true
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return srv
}

func connectAs(t *testing.T, settings natskit.Settings, url string) *natskit.Conn {
	t.Helper()
	conn, err := settings.Connect(url, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// awaitUp waits for a connection.
func awaitUp(t *testing.T, conn *natskit.Conn) {
	t.Helper()
	until(t, "a connection", func() bool { return conn.Err() == nil })
}

func TestFlagsThatCantBeUsedSayWhichAndWhatToDo(t *testing.T) {
	t.Parallel()
	const secret = "SUAsecretsecretsecret"
	seed, _ := userKey(t)
	text, key := file(t, "text", secret), newPair(t)
	two, empty := file(t, "two", secret+"\n"+secret), file(t, "empty", " \n")
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tt := range map[string]struct {
		settings natskit.Settings
		url      string
		want     []string
	}{
		"two identities":      {natskit.Settings{Creds: text, NKey: text}, "", []string{"--nats-creds and --nats-nkey", "keep one"}},
		"one in the URL":      {natskit.Settings{NKey: file(t, "seed", seed)}, "nats://a:4222,nats://me:" + secret + "@b:4222", []string{"--nats", "--nats-nkey", "keep one"}},
		"user alone":          {natskit.Settings{UserFile: text}, "", []string{"--nats-user-file needs --nats-password-file"}},
		"password alone":      {natskit.Settings{PasswordFile: text}, "", []string{"--nats-password-file needs --nats-user-file"}},
		"certificate alone":   {natskit.Settings{TLSCert: key.cert}, "", []string{"--nats-tls-cert needs --nats-tls-key"}},
		"key alone":           {natskit.Settings{TLSKey: key.key}, "", []string{"--nats-tls-key needs --nats-tls-cert"}},
		"domain":              {natskit.Settings{Domain: "a.b"}, "", []string{"--nats-domain", "letters, digits"}},
		"inbox prefix":        {natskit.Settings{InboxPrefix: "_INBOX."}, "", []string{"--nats-inbox-prefix", "such as _INBOX_gateway"}},
		"inbox wildcard":      {natskit.Settings{InboxPrefix: "a.>"}, "", []string{"--nats-inbox-prefix"}},
		"every fault":         {natskit.Settings{UserFile: text, Domain: "*"}, "", []string{"--nats-user-file", "--nats-domain"}},
		"missing creds":       {natskit.Settings{Creds: missing}, "", []string{"--nats-creds " + missing, "no such file"}},
		"no creds":            {natskit.Settings{Creds: text}, "", []string{"--nats-creds", "no credentials file", "nsc"}},
		"seed instead":        {natskit.Settings{Creds: file(t, "seed", seed)}, "", []string{"--nats-creds", "no credentials file"}},
		"missing nkey":        {natskit.Settings{NKey: missing}, "", []string{"--nats-nkey " + missing, "no such file"}},
		"folder":              {natskit.Settings{NKey: filepath.Dir(missing)}, "", []string{"--nats-nkey", "directory"}},
		"no nkey":             {natskit.Settings{NKey: text}, "", []string{"--nats-nkey", "begins with SU"}},
		"empty password":      {natskit.Settings{UserFile: text, PasswordFile: empty}, "", []string{"--nats-password-file", "is empty"}},
		"password of 2 lines": {natskit.Settings{UserFile: text, PasswordFile: two}, "", []string{"--nats-password-file", "one line"}},
		"no authority":        {natskit.Settings{TLSCA: text}, "", []string{"--nats-tls-ca", "PEM"}},
		"no certificate":      {natskit.Settings{TLSCert: text, TLSKey: key.key}, "", []string{"--nats-tls-cert", "--nats-tls-key", "PEM"}},
		"another's key":       {natskit.Settings{TLSCert: key.cert, TLSKey: newPair(t).key}, "", []string{"--nats-tls-cert", "does not match"}},
	} {
		_, err := tt.settings.Connect(tt.url, "test", slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %q", name, want, err)
			}
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), seed) {
			t.Errorf("%s: the secret is in %q", name, err)
		}
	}
}

// A new password is read when the connection is made again.
func TestPasswordsAreReadAgain(t *testing.T) {
	t.Parallel()
	settings := natskit.Settings{UserFile: file(t, "user", "svc\n"), PasswordFile: file(t, "password", "first pass@word\n")}
	port := freePort(t)
	before := serveAs(t, &server.Options{Username: "svc", Password: "first pass@word", Port: port})
	conn := connectAs(t, settings, before.ClientURL())
	awaitUp(t, conn)
	before.Shutdown()
	before.WaitForShutdown()
	until(t, "the loss", func() bool { return conn.Err() != nil })
	file(t, settings.PasswordFile, "second")
	serveAs(t, &server.Options{Username: "svc", Password: "second", Port: port})
	awaitUp(t, conn)
	if nc, err := settings.Dial(fmt.Sprint("nats://127.0.0.1:", port), "command", nil); err != nil {
		t.Error(err)
	} else {
		nc.Close()
	}
}

// An nkey that is replaced is read by a new connection, with the old one's subscriptions.
func TestNKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	seed, public := userKey(t)
	settings := natskit.Settings{NKey: file(t, "nkey", seed)}
	port := freePort(t)
	before := serveAs(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}, Port: port})
	conn := connectAs(t, settings, before.ClientURL())
	awaitUp(t, conn)
	first := conn.NATS()
	before.Shutdown()
	before.WaitForShutdown()
	until(t, "the loss", func() bool { return conn.Err() != nil })
	newSeed, newPublic := userKey(t)
	serveAs(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: newPublic}}, Port: port})
	file(t, settings.NKey, newSeed)
	awaitUp(t, conn)
	if conn.NATS() == first {
		t.Error("the connection has the old key")
	}
}

// A server that asks for a certificate gets that of the flags; its own is checked against
// the authorities of the flags.
func TestCertificatesOfBothSides(t *testing.T) {
	t.Parallel()
	ours, theirs := newPair(t), newPair(t)
	srv := serveAs(t, &server.Options{TLS: true, TLSVerify: true, TLSTimeout: patience.Seconds(), TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{theirs.tls}, ClientCAs: ours.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}})
	settings := natskit.Settings{TLSCA: theirs.cert, TLSCert: ours.cert, TLSKey: ours.key}
	url := "nats://" + srv.Addr().String()
	awaitUp(t, connectAs(t, settings, url))
	for name, bad := range map[string]natskit.Settings{
		"authority of another": {TLSCA: ours.cert, TLSCert: ours.cert, TLSKey: ours.key},
		"no certificate":       {TLSCA: theirs.cert},
	} {
		if nc, err := bad.Dial(url, "command", nil); err == nil {
			nc.Close()
			t.Errorf("%s: connected", name)
		}
	}
}

// Answers use only inboxes with the prefix, so they reach users that may read no others.
func TestInboxesHaveThePrefix(t *testing.T) {
	t.Parallel()
	srv := serveAs(t, &server.Options{Users: []*server.User{
		{Username: "echo", Password: "x"},
		{Username: "svc", Password: "x", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_test.a.>"}}}},
	}})
	at := func(user string) string { return "nats://" + user + ":x@" + srv.Addr().String() }
	echo := connectAs(t, natskit.Settings{}, at("echo"))
	awaitUp(t, echo)
	if _, err := echo.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	echo.Flush(patience)
	conn := connectAs(t, natskit.Settings{InboxPrefix: "_INBOX_test.a"}, at("svc"))
	awaitUp(t, conn)
	if got := ask(natskit.NewInbox(conn, patience), "echo", "x"); got.err != nil {
		t.Error(got.err)
	}
	if _, err := conn.NATS().Request("echo", nil, patience); err != nil {
		t.Error(err)
	}
}
