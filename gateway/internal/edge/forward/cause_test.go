package forward

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

// failure is the error of a request to a URL.
func failure(t *testing.T, url string) error {
	t.Helper()
	transport, err := NewTransport("")
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(r)
	if err == nil {
		_ = res.Body.Close()
		t.Fatalf("%s answered", url)
	}
	return err
}

func TestCausesOfRealFailures(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for url, want := range map[string]string{
		"http://127.0.0.1:1": "connection refused",
		plain.URL:            "it closed the connection without an answer",
		secure.URL:           "its TLS certificate is signed by an authority that is not trusted (--upstream-ca adds one)",
		"https" + strings.TrimPrefix(plain.URL, "http"): "it does not speak TLS at this port (is the URL http and not https?)",
	} {
		if got := cause(failure(t, url)); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestCauseQuotesNothing(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"the request failed":                                  errors.New("secret"),
		"DNS does not know the host":                          &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true, Name: "secret"}},
		"DNS did not answer in time":                          &net.DNSError{IsTimeout: true},
		"DNS failed":                                          &net.DNSError{Err: "secret"},
		"its TLS certificate is for another host":             x509.HostnameError{},
		"its TLS certificate has expired or is not valid yet": x509.CertificateInvalidError{Reason: x509.Expired},
		"it did not answer in time":                           fmt.Errorf("secret: %w", os.ErrDeadlineExceeded),
		"no route to the host":                                &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)},
		"it closed the connection without an answer":          fmt.Errorf("secret: %w", io.ErrUnexpectedEOF),
		"the proxy that HTTPS_PROXY or HTTP_PROXY names: connection refused": &net.OpError{
			Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		},
	} {
		if got := cause(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if !timedOut(context.DeadlineExceeded) {
		t.Error("a context's deadline is no timeout")
	}
}
