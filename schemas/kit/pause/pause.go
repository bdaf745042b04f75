// Package pause waits for some time, or until a context ends.
package pause

import (
	"context"
	"time"
)

// For returns nil after d, or the context's error if it ends before.
func For(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
