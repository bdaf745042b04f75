package sink

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Kind is the kind of a failure, which decides what follows.
type Kind int

// The kinds of failures.
const (
	// Retry means that a later attempt may succeed.
	Retry Kind = iota
	// Reject means that no later attempt of the same message can succeed.
	Reject
	// Gone means that the endpoint wants no more messages.
	Gone
)

// Error is a failed attempt. It contains no URL, secret or body.
type Error struct {
	Kind Kind
	// After is the pause that the service asked for; 0 for none.
	After time.Duration
	// Status is the service's HTTP or SMTP status; 0 without an answer.
	Status int
	// Reason says what went wrong.
	Reason string
}

// Error returns the reason with the status.
func (e *Error) Error() string {
	if e.Status == 0 {
		return e.Reason
	}
	return fmt.Sprintf("%s (status %d)", e.Reason, e.Status)
}

// Rejectf returns an error of kind Reject.
func Rejectf(format string, args ...any) *Error {
	return &Error{Kind: Reject, Reason: fmt.Sprintf(format, args...)}
}

// FromStatus returns the error for an HTTP status, nil for success (2xx). 410 is Gone. Other
// 4xx statuses are Reject, except for those about time or load: 408, 425 and 429. The rest,
// redirects included, is Retry.
func FromStatus(status int, after time.Duration) error {
	if status >= 200 && status < 300 {
		return nil
	}
	e := &Error{Status: status, After: after, Reason: "the endpoint answered " + statusText(status)}
	switch {
	case status == http.StatusGone:
		e.Kind, e.Reason = Gone, "the endpoint wants no messages any more"
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
	case status >= 300 && status < 400:
		e.Reason += ", and redirects are not followed"
	case status >= 400 && status < 500:
		e.Kind = Reject
	}
	return e
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return strconv.Itoa(status)
}

// maxRetryAfter bounds the pause that a service can ask for, so that it can't overflow.
const maxRetryAfter = 365 * 24 * time.Hour

// RetryAfter parses a Retry-After header in its two forms, seconds and a date (RFC 9110,
// section 10.2.3). It returns 0 for any other value and for a date in the past.
func RetryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
