package natskit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// placement is the scheme of partitions as it was at a time.
type placement struct {
	scheme partition.Scheme
	at     time.Time
}

// Partitions returns the scheme of the partitions, and whether records may be written by
// it. If not, AskPartitions renews it.
func (c *Conn) Partitions() (s partition.Scheme, fresh bool) {
	p := c.placement.Load()
	if p == nil {
		return partition.Scheme{Count: 1}, false
	}
	age := time.Since(p.at)
	if age > partition.Lease/2 && c.renewing.CompareAndSwap(false, true) {
		go func() {
			defer c.renewing.Store(false)
			ctx, cancel := context.WithTimeout(c.life, partition.Lease/2)
			defer cancel()
			_ = c.AskPartitions(ctx) // who needs it asks again
		}()
	}
	return p.scheme, age < partition.Lease
}

// keptFor is how long after a write the scheme is renewed before it gets old.
const keptFor = time.Minute

// writes tell whether the scheme is renewed before it gets old.
type writes struct {
	keeping atomic.Bool
	newest  atomic.Int64 // in Unix nanoseconds
}

// KeepPartitions is Partitions for a write. For a while after it, writes need not ask for the
// scheme first, as those of callers who send a request now and then would.
func (c *Conn) KeepPartitions() (s partition.Scheme, fresh bool) {
	c.writes.newest.Store(time.Now().UnixNano())
	if !c.writes.keeping.Load() && c.writes.keeping.CompareAndSwap(false, true) {
		go c.keepPartitions()
	}
	return c.Partitions()
}

func (c *Conn) keepPartitions() {
	defer c.writes.keeping.Store(false)
	for pause.For(c.life, partition.Lease/2) == nil && time.Since(time.Unix(0, c.writes.newest.Load())) < keptFor {
		ctx, cancel := context.WithTimeout(c.life, partition.Lease/2)
		_ = c.AskPartitions(ctx) // who needs it asks again
		cancel()
	}
}

// AskPartitions asks for the scheme of the partitions. Of many that ask at once, one does.
func (c *Conn) AskPartitions(ctx context.Context) error {
	began := time.Now()
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return fmt.Errorf("ask for the partitions: %w", ctx.Err())
	}
	if p := c.placement.Load(); p != nil && p.at.After(began) {
		return nil
	}
	_, err := c.truth(ctx)
	return err
}

// truth asks for the stream that has the scheme of the partitions, and learns it. The stream
// is nil if it is missing.
func (c *Conn) truth(ctx context.Context) (*jetstream.StreamInfo, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	asked := time.Now()
	stream, err := c.JetStream().Stream(ctx, BucketStream(partition.Truth))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		c.learn(partition.Scheme{Count: 1}, asked)
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, fmt.Errorf("ask for the partitions: %w", err)
	}
	c.learn(partition.Parse(stream.CachedInfo().Config.Metadata), asked)
	return stream.CachedInfo(), nil
}

// learn takes the scheme as it was at a time. Partitions never become fewer: a stream that
// was made again after a loss does not know how many there are.
func (c *Conn) learn(s partition.Scheme, at time.Time) {
	for {
		known := c.placement.Load()
		if known != nil && !s.After(known.scheme) {
			s = known.scheme
			if !at.After(known.at) {
				return
			}
		}
		if c.placement.CompareAndSwap(known, &placement{s, at}) {
			if known != nil && known.scheme != s {
				c.log.Info("partitions changed", "partitions", s.Count, "before", s.Before, "phase", s.Phase)
			}
			return
		}
	}
}

// spread returns the layout with the partitions that there are, for services that have
// streams which are spread. A gateway has its answers in the first partition alone.
func (c *Conn) spread(ctx context.Context, l Layout) (Layout, error) {
	if l.needed != nil && !slices.ContainsFunc([]string{BucketStream(partition.Truth), VectorsStream}, l.lists) {
		return l, nil
	}
	err := c.AskPartitions(ctx)
	s, _ := c.Partitions()
	l.Partitions = max(l.Partitions, s.Count)
	return l, err
}

// EnsureVectors creates the streams of vectors that are missing.
func (c *Conn) EnsureVectors(ctx context.Context, l Layout) error {
	l, err := c.spread(ctx, l.Of([]string{VectorsStream}))
	for _, cfg := range l.Configs() {
		if err == nil {
			_, err = c.Ensure(ctx, cfg)
		}
	}
	return err
}
