package natskit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request for a stream without a leader is never answered, even when it has one again.
func TestARequestThatNobodyAnswersIsSentAgain(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked, refused := 0, errors.New("refused")
		answer := func(ctx context.Context) error {
			if asked++; asked < 3 {
				return silent(ctx)
			}
			return refused
		}
		if err := patiently(ctx, answer); !errors.Is(err, refused) || asked != 3 || ctx.Err() != nil {
			t.Errorf("asked %d times, %v, %v", asked, err, ctx.Err())
		}
		if err := patiently(ctx, silent); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
			t.Errorf("with no answer at all: %v, %v", err, ctx.Err())
		}
	})
}
