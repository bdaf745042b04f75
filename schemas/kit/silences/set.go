package silences

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/silence"
)

// Set holds the stored silences. It is safe for concurrent use.
type Set struct {
	mu  sync.Mutex
	all map[string]silence.Silence
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{all: map[string]silence.Silence{}} }

// All returns the silences that are stored; some may have ended.
func (s *Set) All() []silence.Silence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.all)
}

// Follow keeps the set up to date until the context ends. It calls changed after each change.
func (s *Set) Follow(ctx context.Context, f *natskit.Follower, changed func()) error {
	return f.Follow(ctx, schemas.BucketSilences, ">", func(entries []jetstream.KeyValueEntry, all bool) {
		s.apply(entries, all)
		changed()
	})
}

// apply applies entries of the bucket. An expired record leaves no entry, so that silences
// that have ended are dropped here.
func (s *Set) apply(entries []jetstream.KeyValueEntry, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		clear(s.all)
	}
	now := time.Now()
	for id, old := range s.all {
		if !now.Before(old.End) {
			delete(s.all, id)
		}
	}
	for _, entry := range entries {
		if one, ok := parse(entry); ok {
			s.all[one.ID] = one
		} else {
			delete(s.all, entry.Key())
		}
	}
}
