package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// cause describes why an upstream did not answer. It does not quote the error, which may
// contain what the client sent.
func cause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "proxyconnect" {
		return "the proxy that HTTPS_PROXY or HTTP_PROXY names: " + cause(op.Err)
	}
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dns) && dns.IsTimeout:
		return "DNS did not answer in time"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "DNS does not know the host"
	case errors.As(err, &dns):
		return "DNS failed"
	case errors.As(err, &unknown):
		return "its TLS certificate is signed by an authority that is not trusted (--upstream-ca adds one)"
	case errors.As(err, &wrongHost):
		return "its TLS certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its TLS certificate has expired or is not valid yet"
	case errors.As(err, &untrusted):
		return "its TLS certificate is not valid"
	case errors.As(err, &record):
		return "it does not speak TLS at this port (is the URL http and not https?)"
	case errors.As(err, &alert):
		return "it refused the TLS handshake"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to the host"
	case timedOut(err):
		return "it did not answer in time"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without an answer"
	}
	return "the request failed"
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
