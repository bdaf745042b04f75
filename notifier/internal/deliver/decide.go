package deliver

import (
	"context"
	"errors"
	"time"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/sink"
)

// Result is the result of an attempt, as metrics name it.
type Result string

// The results.
const (
	// Delivered: the endpoint accepted the message.
	Delivered Result = "delivered"
	// Retried: another attempt follows later.
	Retried Result = "retried"
	// Interrupted: this process stops, and another notifier tries at once.
	Interrupted Result = "interrupted"
	// Rejected: the endpoint refused the message for good.
	Rejected Result = "rejected"
	// Expired: no attempts are left.
	Expired Result = "expired"
	// Gone: the endpoint asked for no more messages.
	Gone Result = "gone"
	// Disabled: the endpoint asked for no more messages before.
	Disabled Result = "disabled"
	// Full: the group or the endpoint's share of the bucket has no room.
	Full Result = "full"
	// Duplicate: the delivery log shows that the endpoint accepted the message before.
	Duplicate Result = "duplicate"
	// Invalid: the message in the stream is not an event.
	Invalid Result = "invalid"
)

// results lists every Result.
var results = []Result{Delivered, Retried, Interrupted, Rejected, Expired, Gone, Disabled, Full, Duplicate, Invalid}

// dead reports whether the message becomes a dead letter.
func (r Result) dead() bool {
	switch r {
	case Rejected, Expired, Gone, Disabled, Full:
		return true
	default:
		return false
	}
}

// disposition says what happens to a message after an attempt.
type disposition struct {
	result Result
	// wait is the time until the next attempt, pause the time for which the endpoint asked
	// for no messages.
	wait, pause time.Duration
}

// decide returns the disposition of a message after an attempt with an error and a number,
// from 1. random is uniform in [0, 1).
func decide(err error, number int, s outbox.Schedule, random float64) disposition {
	var e *sink.Error
	switch {
	case err == nil:
		return disposition{result: Delivered}
	case errors.Is(err, context.Canceled):
		return disposition{result: Interrupted}
	case !errors.As(err, &e):
		e = &sink.Error{}
	}
	switch e.Kind {
	case sink.Reject:
		return disposition{result: Rejected}
	case sink.Gone:
		return disposition{result: Gone}
	}
	wait, more := s.Wait(number, e.After, random)
	if !more {
		return disposition{result: Expired, pause: e.After}
	}
	return disposition{result: Retried, wait: wait, pause: e.After}
}

// outcome returns the change to the message's record.
func (d disposition) outcome() outbox.Outcome {
	return outbox.Outcome{
		Over: d.result != Retried && d.result != Interrupted, Attempted: d.result != Interrupted, Wait: d.wait,
	}
}
