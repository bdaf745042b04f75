package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas/kit/guarded"
)

const (
	userAgent = "unloop-notifier"
	// dialTimeout bounds the dialling of a connection. The context bounds the whole attempt.
	dialTimeout = 5 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes. The connection of a longer one is
	// closed.
	maxAnswer = 64 << 10
)

// Client posts messages. It is safe for concurrent use.
type Client struct {
	http *http.Client
}

// NewDialer returns a dialer that may reach the allowed networks besides public ones.
func NewDialer(allowed []netip.Prefix) *net.Dialer { return guarded.NewDialer(allowed, dialTimeout) }

// NewClient returns a client that dials with the dialer.
func NewClient(d *net.Dialer) *Client { return &Client{guarded.NewClient(d)} }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post posts a body, as JSON unless the header has another type, and returns the beginning of
// the answer's body. The error is a *sink.Error, or context.Canceled.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte) (answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, sink.Rejectf("the endpoint's address is no URL")
	}
	req.Header = header
	req.Header.Set("User-Agent", userAgent)
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, Failure(ctx, err)
	}
	defer resp.Body.Close()
	// The status decides, even if the body can't be read to its end.
	answer, _ = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer, sink.FromStatus(resp.StatusCode, sink.RetryAfter(resp.Header.Get("Retry-After"), time.Now()))
}

// Failure returns the error of an attempt without an answer: context.Canceled if the context was
// cancelled, else a *sink.Error with the reason, which does not name the target.
func Failure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	return &sink.Error{Reason: reason(ctx, err)}
}

// reason describes an error in fixed words, since its text may contain the URL.
func reason(ctx context.Context, err error) string {
	var certificate *tls.CertificateVerificationError
	var dns *net.DNSError
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case guarded.Refused(err):
		return "the endpoint leads to a private address; allow its network with --allow-cidr or allow_cidr"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "the endpoint did not answer in time"
	case errors.As(err, &certificate):
		return "the endpoint's certificate is not valid: " + certificate.Err.Error()
	case errors.As(err, &dns):
		return "the endpoint's host cannot be resolved"
	case errors.As(err, &op) && op.Op == "dial":
		return "the endpoint cannot be reached: " + cause(op.Err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the endpoint did not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the endpoint closed the connection without an answer"
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return "the request failed: " + cause(err)
}

// cause returns the text of the innermost error if it is one of the operating system, which
// contains no address.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	if _, ok := err.(interface{ Temporary() bool }); ok { // syscall.Errno
		return err.Error()
	}
	return "protocol error"
}
