package natskit

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ServerTime returns the time of the server that leads the counters' stream, so that all
// processes ask the same server. An embedded server has this process's clock.
func (c *Conn) ServerTime(ctx context.Context) (time.Time, error) {
	if c.suspect != nil && c.Err() == nil {
		return time.Now(), nil
	}
	info, err := c.truth(ctx)
	if err == nil && info == nil {
		err = jetstream.ErrStreamNotFound
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("ask NATS for its time: %w", err)
	}
	return info.TimeStamp, nil
}
