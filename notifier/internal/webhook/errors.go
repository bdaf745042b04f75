package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"code.dny.dev/ssrf"
)

// ErrPrivateTarget says that the endpoint resolves to an address that is not
// on the public internet and not allowed either.
var ErrPrivateTarget = errors.New("the webhook leads to a private address; allow its network with --allow-cidr")

// StatusError says that the endpoint answered with something else than 2xx.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// After is how long the endpoint asked to be left alone, 0 if it did not.
	After time.Duration
}

func (e *StatusError) Error() string {
	if text := http.StatusText(e.Code); text != "" {
		return fmt.Sprintf("webhook answered %d %s", e.Code, text)
	}
	return fmt.Sprintf("webhook answered %d", e.Code)
}

// Permanent reports whether the same request can only be refused again: 4xx,
// except the three that speak of time or load (408, 425, 429).
func (e *StatusError) Permanent() bool {
	switch e.Code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return e.Code >= 400 && e.Code < 500
}

// RetryAfter is how long to wait at least before the next attempt.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

// unsendableError says that an event can't be put into a request at all.
type unsendableError struct{ reason string }

func (e unsendableError) Error() string { return "event can't be sent: " + e.reason }

func (unsendableError) Permanent() bool { return true }

// withoutURL strips what net/http wraps around the cause of a failed request,
// because the URL in it may hold credentials.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, ssrf.ErrProhibitedIP) {
		return fmt.Errorf("%w: %w", ErrPrivateTarget, err)
	}
	return err
}
