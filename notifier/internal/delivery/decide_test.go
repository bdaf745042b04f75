package delivery

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type sinkError struct {
	permanent bool
	after     time.Duration
}

func (sinkError) Error() string { return "sink error" }

func (e sinkError) Permanent() bool { return e.permanent }

func (e sinkError) RetryAfter() time.Duration { return e.after }

func TestJudge(t *testing.T) {
	t.Parallel()
	policy := Retry{Min: time.Second, Max: time.Minute, MaxAge: time.Hour}
	bounded := policy
	bounded.MaxAttempts = 3
	plain := errors.New("connection refused")
	tests := []struct {
		name   string
		policy Retry
		err    error
		number uint64
		age    time.Duration
		want   disposition
	}{
		{"success", policy, nil, 1, 0, disposition{Delivered, 0}},
		{"success after the last attempt", bounded, nil, 99, 99 * time.Hour, disposition{Delivered, 0}},
		{"first failure", policy, plain, 1, 0, disposition{Retried, time.Second}},
		{"third failure", policy, plain, 3, 0, disposition{Retried, 4 * time.Second}},
		{"many failures", policy, plain, 1 << 60, 0, disposition{Retried, time.Minute}},
		{"time ran out", policy, fmt.Errorf("post: %w", context.DeadlineExceeded), 1, 0, disposition{Retried, time.Second}},
		{"refused for good", policy, fmt.Errorf("post: %w", sinkError{permanent: true}), 1, 0, disposition{Rejected, 0}},
		{"asked to wait", policy, fmt.Errorf("post: %w", sinkError{after: 30 * time.Second}), 1, 0, disposition{Retried, 30 * time.Second}},
		{"asked for less than the backoff", policy, sinkError{after: time.Second}, 4, 0, disposition{Retried, 8 * time.Second}},
		{"asked to wait for a year", policy, sinkError{after: 365 * 24 * time.Hour}, 1, 0, disposition{Retried, maxRetryAfter}},
		{"process stops", policy, fmt.Errorf("post: %w", context.Canceled), 5, 2 * time.Hour, disposition{Interrupted, 0}},
		{"just young enough", policy, plain, 1, time.Hour - 1, disposition{Retried, time.Second}},
		{"too old", policy, plain, 1, time.Hour, disposition{Expired, 0}},
		{"last but one attempt", bounded, plain, 2, 0, disposition{Retried, 2 * time.Second}},
		{"last attempt", bounded, plain, 3, 0, disposition{Expired, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.policy.decide(tt.err, tt.number, tt.age, 0); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestBackoffStaysInItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int64Range(1, 1<<62).Draw(t, "min")
		policy := Retry{Min: time.Duration(least), Max: time.Duration(rapid.Int64Range(least, 1<<63-1).Draw(t, "max"))}
		number := rapid.Uint64().Draw(t, "number")
		random := rapid.Float64Range(0, 0.999).Draw(t, "random")
		got, longest, next := policy.backoff(number, random), policy.backoff(number, 0), policy.backoff(number+1, 0)
		if got <= 0 && policy.Min > 1 || got > policy.Max || got > longest || got < longest/2-1 {
			t.Errorf("got %d of at most %d", got, longest)
		}
		if number < 1<<63 && next < longest {
			t.Errorf("the wait shrinks from %d to %d", longest, next)
		}
	})
}
