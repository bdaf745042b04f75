package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/unloop/unloop/schemas/event"
)

const (
	userAgent = "unloop-notifier"
	// maxAnswer is how much of an answer is read, in bytes, so that its
	// connection can be used again; what is longer costs its connection.
	maxAnswer = 64 << 10
)

// Config says where events go.
type Config struct {
	// URL is the endpoint, http or https; user and password in it become
	// basic authentication.
	URL *url.URL
	// Key signs requests; without one they have no signature.
	Key []byte
	// Allowed are the networks that may be dialled although not public.
	Allowed []netip.Prefix
}

// Webhook is one endpoint. It is safe for concurrent use.
type Webhook struct {
	url    string
	signer *standardwebhooks.Webhook
	client *http.Client
}

// New returns a webhook. It dials nothing yet.
func New(cfg Config) (*Webhook, error) {
	w := &Webhook{url: cfg.URL.String()}
	if len(cfg.Key) > 0 {
		signer, err := standardwebhooks.NewWebhookRaw(cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("use webhook secret: %w", err)
		}
		w.signer = signer
	}
	w.client = &http.Client{
		Transport: newTransport(cfg.Allowed),
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return w, nil
}

// Name is the sink's name in metrics and logs.
func (*Webhook) Name() string { return "webhook" }

// Close drops idle connections.
func (w *Webhook) Close() { w.client.CloseIdleConnections() }

// Send posts the event's body, as it is, once. Every attempt for an event
// has the same webhook-id and its own time. An answer other than 2xx is a
// *StatusError; the context's end is its error.
func (w *Webhook) Send(ctx context.Context, e event.Event, body []byte) error {
	req, err := w.request(ctx, e.ID, body)
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("post to webhook: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	// The verdict is in the status: a rest that can't be read changes nothing.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	return &StatusError{Code: resp.StatusCode, After: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

func (w *Webhook) request(ctx context.Context, id string, body []byte) (*http.Request, error) {
	if !isVisible(id) {
		return nil, unsendableError{"its id has characters that a header can't carry"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, unsendableError{"the webhook's URL can't be requested"}
	}
	at := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	if w.signer == nil {
		return req, nil
	}
	signature, err := w.signer.Sign(id, at, body)
	if err != nil {
		return nil, fmt.Errorf("sign event: %w", err)
	}
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return req, nil
}

// isVisible reports whether s is made of visible ASCII characters alone.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

// maxRetryAfter bounds the seconds that are believed, far above what any
// caller will wait, so that they can't overflow a Duration.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter reads the header's two forms, seconds and a date (RFC 9110
// 10.2.3). What is neither, or lies in the past, is 0.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
