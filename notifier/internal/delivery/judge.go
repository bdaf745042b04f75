package delivery

import (
	"context"
	"errors"
	"time"
)

// Result is how an attempt ended, as metrics name it.
type Result string

// What can become of a message.
const (
	// Delivered: the sink has it.
	Delivered Result = "delivered"
	// Retried: it comes again later.
	Retried Result = "retried"
	// Interrupted: this process stops; it comes again at once, elsewhere.
	Interrupted Result = "interrupted"
	// Rejected: the sink will never take it.
	Rejected Result = "rejected"
	// Expired: it was tried for as long as configured.
	Expired Result = "expired"
	// Invalid: it is no event.
	Invalid Result = "invalid"
)

// results lists every Result.
var results = []Result{Delivered, Retried, Interrupted, Rejected, Expired, Invalid}

// maxRetryAfter bounds how long a sink may ask to be left alone.
const maxRetryAfter = time.Hour

// Retry says how often and how long delivery is tried.
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

// verdict is what becomes of a message, and when it comes again.
type verdict struct {
	result Result
	delay  time.Duration
}

// Sinks' errors may say these of themselves.
type (
	permanent interface{ Permanent() bool }
	waiting   interface{ RetryAfter() time.Duration }
)

// judge decides from an attempt's error, number and the event's age. An event
// always gets one attempt, however old it is. random is uniform in [0, 1).
func (r Retry) judge(err error, number uint64, age time.Duration, random float64) verdict {
	switch {
	case err == nil:
		return verdict{result: Delivered}
	case isPermanent(err):
		return verdict{result: Rejected}
	case errors.Is(err, context.Canceled):
		return verdict{result: Interrupted}
	case age >= r.MaxAge, r.MaxAttempts > 0 && number >= uint64(r.MaxAttempts):
		return verdict{result: Expired}
	}
	return verdict{result: Retried, delay: max(r.backoff(number, random), askedFor(err))}
}

// backoff is Min·2^(number-1), at most Max, of which a random half is taken
// off, so that events that failed together don't return together.
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
