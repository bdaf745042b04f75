package natskit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A request for a stream without a leader is never answered, even when it has one again.
func TestARequestThatNobodyAnswersIsSentAgain(t *testing.T) {
	t.Parallel()
	mute := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked, refused := 0, errors.New("refused")
		answer := func(ctx context.Context) error {
			if asked++; asked < 3 {
				return mute(ctx)
			}
			return refused
		}
		if err := patiently(ctx, answer); !errors.Is(err, refused) || asked != 3 || ctx.Err() != nil {
			t.Errorf("asked %d times, %v, %v", asked, err, ctx.Err())
		}
		if err := patiently(ctx, mute); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
			t.Errorf("with no answer at all: %v, %v", err, ctx.Err())
		}
	})
}

// silent is a JetStream that answers no request for a stream.
type silent struct {
	jetstream.JetStream
	asked int
}

func (s *silent) Stream(context.Context, string) (jetstream.Stream, error) {
	s.asked++
	return nil, context.DeadlineExceeded
}

// A service goes on without a stream that it can do without, and says what it waits for otherwise.
func TestAServiceDoesNotWaitForAStreamThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	var js silent
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := ensure(ctx, &js, jetstream.StreamConfig{Name: "X"}, 1); !errors.Is(err, context.DeadlineExceeded) || js.asked != 1 || ctx.Err() != nil {
		t.Errorf("asked %d times, %v", js.asked, err)
	}
}
