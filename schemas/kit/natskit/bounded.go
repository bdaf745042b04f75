package natskit

import "context"

// bounded runs f and returns when f has returned or the context has ended, whichever is
// first.
func bounded(ctx context.Context, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
