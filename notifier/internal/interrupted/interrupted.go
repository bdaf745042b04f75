// Package interrupted counts how often an event was returned because its notifier
// stopped. JetStream counts every delivery, and these are no failed attempts.
//
// It knows nothing of sinks, or of why an event was sent back.
package interrupted

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Counts counts by an event's place in the stream.
type Counts struct {
	ledger *ledger.Ledger[count, *count]
	keep   time.Duration
}

// count is one event's record.
type count struct {
	N int `json:"n"`
}

// Parse reads what Append wrote.
func (c *count) Parse(stored []byte) error { return json.Unmarshal(stored, c) }

// Append writes the count as JSON.
func (c *count) Append(b []byte) []byte { return fmt.Appendf(b, `{"n":%d}`, c.N) }

// New returns counts in schemas.BucketSessions, each of which is kept for so long.
func New(nc *natskit.Conn, keep time.Duration) *Counts {
	return &Counts{ledger: ledger.New[count](nc, schemas.BucketSessions, nil), keep: keep}
}

// timeout bounds the write of a process that stops.
const timeout = time.Second

// Add notes that an event was sent back.
func (c *Counts) Add(sequence uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return c.ledger.Apply(ctx, key(sequence), func(was count) (count, time.Duration) {
		was.N++
		return was, max(c.keep.Truncate(time.Second), time.Second)
	})
}

// Of returns how often an event was sent back; 0 where that can't be told.
func (c *Counts) Of(sequence uint64) uint64 {
	found, err := c.ledger.Read(context.Background(), key(sequence))
	if err != nil {
		return 0
	}
	return uint64(max(found.N, 0))
}

func key(sequence uint64) string { return "interrupted." + strconv.FormatUint(sequence, 10) }
