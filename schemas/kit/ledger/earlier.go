package ledger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// probeEvery is how often a ledger looks for records under earlier keys.
const probeEvery = 30 * time.Second

// earlier is what a ledger knows of the keys that versions before this one used.
type earlier struct {
	patterns []string
	mu       sync.Mutex
	probed   time.Time
	// gone says that there are no records under earlier keys.
	gone atomic.Bool
}

// WithEarlier makes a record that has no stored form continue the one under its earlier
// key, which its step's context names (Continue). The patterns match all earlier keys in
// the bucket, and no others. While no record matches, nothing more is read; that is
// looked up every 30 seconds, since a process of an older version may write such records
// at any time.
func WithEarlier(patterns ...string) Option {
	return func(o *options) { o.earlier = &earlier{patterns: patterns} }
}

// earlierKey marks the contexts of steps on records that had another key.
type earlierKey struct{}

// Continue returns a context for a step on a record that had another key before.
func Continue(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, earlierKey{}, key)
}

// Continuing is Continue for records among which there may be some under earlier keys; it
// returns the same context for others.
func Continuing(ctx context.Context, records any, key func() string) context.Context {
	if l, ok := records.(interface{ Earlier() bool }); ok && l.Earlier() {
		return Continue(ctx, key())
	}
	return ctx
}

// Earlier reports whether there may be records under earlier keys.
func (l *Ledger[S, P]) Earlier() bool {
	if l.earlier == nil {
		return false
	}
	l.probe()
	return !l.earlier.gone.Load()
}

// probe looks from time to time for records under earlier keys. Until the first answer
// there may be some.
func (l *Ledger[S, P]) probe() {
	if !l.earlier.due() {
		return
	}
	var left, found atomic.Int64
	left.Store(int64(len(l.earlier.patterns)))
	for _, pattern := range l.earlier.patterns {
		l.load(selector{Last: l.subject(pattern)}, func(m message, err error) {
			if err != nil || m.seq > 0 { // what is not known may be there
				found.Add(1)
			}
			if left.Add(-1) == 0 {
				l.earlier.gone.Store(found.Load() == 0)
			}
		})
	}
}

func (e *earlier) due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.probed.IsZero() && time.Since(e.probed) < probeEvery {
		return false
	}
	e.probed = time.Now()
	return true
}

// before returns the earlier key that a context names, if there may be a record under it.
func (l *Ledger[S, P]) before(ctx context.Context) string {
	key, _ := ctx.Value(earlierKey{}).(string)
	if key == "" || !l.Earlier() {
		return ""
	}
	return key
}

// inherit calls done with the record under an earlier key; the zero record if there is
// none.
func (l *Ledger[S, P]) inherit(key string, done func(S, error)) {
	l.load(selector{Last: l.subject(key)}, func(m message, err error) {
		if err != nil {
			err = fmt.Errorf("read %s: %w", key, err)
		}
		done(l.decode(m).record, err)
	})
}
