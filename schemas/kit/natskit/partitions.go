package natskit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// placement is the scheme of partitions at a time.
type placement struct {
	scheme partition.Scheme
	at     time.Time
}

// Partitions returns the last known scheme of the partitions.
func (c *Conn) Partitions() partition.Scheme {
	if p := c.placement.Load(); p != nil {
		return p.scheme
	}
	return partition.Scheme{Count: 1}
}

// keptFor is how long after its last use the scheme is renewed in the background.
const keptFor = time.Minute

// UsePartitions returns the scheme of the partitions, and whether its lease still holds; if
// not, AskPartitions renews it. After a use, it is renewed in the background for a while, so
// that callers with few requests need not wait.
func (c *Conn) UsePartitions() (s partition.Scheme, fresh bool) {
	p := c.placement.Load()
	c.used.Store(time.Now().UnixNano())
	if !c.keeping.Load() && c.keeping.CompareAndSwap(false, true) {
		go c.keepPartitions()
	}
	if p == nil {
		return partition.Scheme{Count: 1}, false
	}
	return p.scheme, time.Since(p.at) < partition.Lease
}

func (c *Conn) keepPartitions() {
	defer c.keeping.Store(false)
	for time.Since(time.Unix(0, c.used.Load())) < keptFor {
		ctx, cancel := context.WithTimeout(c.life, partition.Lease/2)
		_ = c.AskPartitions(ctx) // who needs it asks again
		cancel()
		if pause.For(c.life, partition.Lease/2) != nil {
			return
		}
	}
}

// AskPartitions asks for the scheme of the partitions; concurrent calls share one request.
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

// truth reads the stream that has the scheme of the partitions, and learns the scheme. It
// returns nil if the stream is missing.
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

// learn stores a scheme that was read at a time. Partitions never become fewer: a recreated
// stream does not know their number.
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

// spread returns the layout with the actual number of partitions, if any of its streams has
// partitions. A gateway only uses the first.
func (c *Conn) spread(ctx context.Context, l Layout) (Layout, error) {
	if l.needed != nil && !slices.ContainsFunc([]string{BucketStream(partition.Truth), VectorsStream}, l.lists) {
		return l, nil
	}
	err := c.AskPartitions(ctx)
	l.Partitions = max(l.Partitions, c.Partitions().Count)
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
