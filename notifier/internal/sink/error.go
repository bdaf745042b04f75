package sink

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Kind says what may be done after a failed attempt.
type Kind int

// The kinds of failures.
const (
	// Retry means that a later attempt may succeed.
	Retry Kind = iota
	// Reject means that no later attempt of the same message can succeed.
	Reject
	// Gone means that the endpoint wants no messages any more.
	Gone
)

// Error is a failed attempt. It holds no URL, no secret and no body.
type Error struct {
	Kind Kind
	// After is the time that the service asked to be left alone; 0 if it did not.
	After time.Duration
	// Status is the service's HTTP or SMTP status; 0 if there was no answer.
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

// FromStatus returns the error for an HTTP status, nil for success (2xx). 410 means Gone.
// Other statuses of 4xx mean Reject, except for the three that speak of time or load: 408,
// 425 and 429. Redirects are not followed, and everything else may be tried again.
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

// maxRetryAfter bounds the time that a service can ask for, so that it cannot overflow.
const maxRetryAfter = 365 * 24 * time.Hour

// RetryAfter reads the header of that name in its two forms, seconds and a date (RFC 9110,
// section 10.2.3). A value that is neither, or that is in the past, is 0.
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
