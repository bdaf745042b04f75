package natskit

import (
	"context"
	"fmt"
	"time"

	"github.com/unloop/unloop/schemas"
)

// ServerTime returns the time of the server that leads the counters' stream, so that all
// processes ask the same one of several servers. An embedded server has this process's.
func (c *Conn) ServerTime(ctx context.Context) (time.Time, error) {
	if err := c.Err(); err != nil {
		return time.Time{}, err
	}
	if c.suspect != nil {
		return time.Now(), nil
	}
	stream, err := c.JetStream().Stream(ctx, BucketStream(schemas.BucketCounters))
	if err != nil {
		return time.Time{}, fmt.Errorf("ask NATS for its time: %w", err)
	}
	return stream.CachedInfo().TimeStamp, nil
}
