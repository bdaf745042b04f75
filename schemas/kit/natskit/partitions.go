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

// placement is the scheme of partitions as it was at a time.
type placement struct {
	scheme partition.Scheme
	at     time.Time
}

// Partitions returns the scheme of the partitions as it was when it was last asked for.
func (c *Conn) Partitions() partition.Scheme {
	if p := c.placement.Load(); p != nil {
		return p.scheme
	}
	return partition.Scheme{Count: 1}
}

// keptFor is how long after its last use the scheme is renewed before it gets old.
const keptFor = time.Minute

// UsePartitions returns the scheme of the partitions, and whether records may be read and
// written by it. If not, AskPartitions renews it. For a while after a use it is renewed before
// it gets old, so that callers with a request now and then need not wait for that.
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
