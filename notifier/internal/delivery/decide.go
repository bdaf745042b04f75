package delivery

import (
	"context"
	"errors"
	"time"
)

// Result is how an attempt ended, as metrics name it.
type Result string

// The results.
const (
	// Delivered: the sink took the event.
	Delivered Result = "delivered"
	// Retried: another attempt follows later.
	Retried Result = "retried"
	// Interrupted: this process stops; another notifier tries at once.
	Interrupted Result = "interrupted"
	// Rejected: the sink refused the event for good.
	Rejected Result = "rejected"
	// Expired: the configured age or number of attempts was reached.
	Expired Result = "expired"
	// Invalid: the message is not an event.
	Invalid Result = "invalid"
)

// results lists every Result.
var results = []Result{Delivered, Retried, Interrupted, Rejected, Expired, Invalid}

// maxRetryAfter bounds how long a sink may ask to be left alone.
const maxRetryAfter = time.Hour

// Retry limits how often and for how long delivery is tried.
type Retry struct {
	// Min is the wait after the first failure; it doubles with each further
	// one, up to Max.
	Min, Max time.Duration
	// MaxAge is the age of an event, since the stream took it in, from which
	// a failure is the last one.
	MaxAge time.Duration
	// MaxAttempts bounds attempts; 0 does not.
	MaxAttempts int
}

// disposition is what is done with a message after an attempt, and the delay until
// its next one.
type disposition struct {
	result Result
	delay  time.Duration
}

// Optional interfaces of sinks' errors.
type (
	permanent interface{ Permanent() bool }
	waiting   interface{ RetryAfter() time.Duration }
)

// decide returns the disposition of a message after an attempt, by the attempt's error
// and number and the event's age. An event of any age gets one attempt. random is
// uniform in [0, 1).
func (r Retry) decide(err error, number uint64, age time.Duration, random float64) disposition {
	switch {
	case err == nil:
		return disposition{result: Delivered}
	case isPermanent(err):
		return disposition{result: Rejected}
	case errors.Is(err, context.Canceled):
		return disposition{result: Interrupted}
	case age >= r.MaxAge, r.MaxAttempts > 0 && number >= uint64(r.MaxAttempts):
		return disposition{result: Expired}
	}
	return disposition{result: Retried, delay: max(r.backoff(number, random), askedFor(err))}
}

// backoff returns Min·2^(number-1), at most Max, less a random part of up to one
// half, so that events that failed together are not retried together.
func (r Retry) backoff(number uint64, random float64) time.Duration {
	ceiling := r.Min
	for i := uint64(1); i < number && ceiling < r.Max; i++ {
		ceiling += min(ceiling, r.Max-ceiling)
	}
	return ceiling - time.Duration(random*float64(ceiling)/2)
}

func isPermanent(err error) bool {
	var p permanent
	return errors.As(err, &p) && p.Permanent()
}

func askedFor(err error) time.Duration {
	var w waiting
	if !errors.As(err, &w) {
		return 0
	}
	return min(w.RetryAfter(), maxRetryAfter)
}
