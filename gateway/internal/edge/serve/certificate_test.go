package serve

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// write replaces a certificate for 127.0.0.1 that signs itself, with its key.
func write(t *testing.T, files Certificate, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{files.File: {Type: "CERTIFICATE", Bytes: signed}, files.Key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func inFolder(t *testing.T) Certificate {
	t.Helper()
	return Certificate{File: filepath.Join(t.TempDir(), "tls.crt"), Key: filepath.Join(t.TempDir(), "tls.key")}
}

// TestTLSSpeaksBothVersionsOfHTTP streams an answer over HTTP/1.1 and HTTP/2.
func TestTLSSpeaksBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	files := inFolder(t)
	roots := x509.NewCertPool()
	roots.AddCert(write(t, files, 1))
	listener, err := Listen("--listen", "127.0.0.1:0", files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	goOn := make(chan bool)
	go func() {
		_ = Until(t.Context(), listener, Config{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "first")
				_ = http.NewResponseController(w).Flush()
				<-goOn
				_, _ = io.WriteString(w, " second")
			}),
			Log: slog.New(slog.DiscardHandler), Draining: func() {},
		})
	}()
	for _, two := range []bool{false, true} {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: two}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String(), http.NoBody)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 5)
		_, err = io.ReadFull(res.Body, first)
		goOn <- true
		rest, restErr := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(first)+string(rest) != "first second" || err != nil || restErr != nil || (res.ProtoMajor == 2) != two {
			t.Errorf("%s: %q, %q, %v, %v", res.Proto, first, rest, err, restErr)
		}
	}
}

// TestANewCertificateIsTakenWithoutARestart replaces the files, once by what is not a certificate.
func TestANewCertificateIsTakenWithoutARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		files := inFolder(t)
		write(t, files, 1)
		pair := &pair{files: files, log: slog.New(slog.NewTextHandler(&logged, nil))}
		if err := pair.read(); err != nil {
			t.Fatal(err)
		}
		shows := func(want int64) {
			t.Helper()
			if got, err := pair.get(nil); err != nil || got.Leaf.SerialNumber.Int64() != want {
				t.Errorf("shows %v, %v, want %d", got.Leaf.SerialNumber, err, want)
			}
		}
		write(t, files, 2)
		shows(1)
		<-time.After(reread) // by the clock of the bubble
		shows(2)
		if err := os.WriteFile(files.File, []byte("no certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(reread)
		shows(2)
		if !strings.Contains(logged.String(), "--tls-cert "+files.File) {
			t.Errorf("logged %q", &logged)
		}
	})
}

func TestFaultyCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	files, other := inFolder(t), inFolder(t)
	write(t, files, 1)
	write(t, other, 2)
	for name, c := range map[string]struct {
		files Certificate
		want  string
	}{
		"no key":           {Certificate{File: files.File}, "--tls-cert and --tls-key belong together"},
		"no certificate":   {Certificate{Key: files.Key}, "--tls-cert and --tls-key belong together"},
		"no file":          {Certificate{File: files.File + "x", Key: files.Key}, "no such file"},
		"another key":      {Certificate{File: files.File, Key: other.Key}, "--tls-key " + other.Key},
		"a key in between": {Certificate{File: files.Key, Key: files.Key}, "--tls-cert " + files.Key},
	} {
		if _, err := Listen("--listen", "127.0.0.1:0", c.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, c.want)
		}
	}
}
