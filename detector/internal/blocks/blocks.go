// Package blocks keeps the cooldowns in force. They are in a bucket of their own, because
// the bucket of counters drops the oldest records under a flood, and every detector
// remembers them.
//
// It does not know how a cooldown begins or what it blocks.
package blocks

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/storepb"
)

const (
	// Subjects matches the subjects of stored blocks.
	Subjects = subject + ">"
	subject  = "$KV." + schemas.BucketBlocks + "."
	// maxStanding bounds the counters whose blocks are remembered.
	maxStanding = 100_000
	// maxRecord is the length of the longest record that is taken, in bytes.
	maxRecord = 64 << 10
	// loadTimeout bounds the reading of the stored blocks at the start.
	loadTimeout = 2 * time.Second
	// lateness is how long after a release a message about an earlier block may arrive, and
	// maxForgotten bounds the releases that are remembered for that time.
	lateness     = time.Minute
	maxForgotten = 10_000
)

// record is what the bucket holds of one counter. Its blocks are never changed.
type record struct {
	Blocks []*storepb.Block
	// load is the number of the newest Load when the record was last seen.
	load int
}

// Parse reads what Append wrote.
func (r *record) Parse(stored []byte) error {
	var m storepb.Blocks
	err := proto.Unmarshal(stored, &m)
	r.Blocks = m.GetBlocks()
	return err
}

// Append writes the record as storepb.Blocks.
func (r *record) Append(b []byte) []byte { return storepb.Append(b, &storepb.Blocks{Blocks: r.Blocks}) }

// with returns the record with one more block, without those that are over.
func (r record) with(one *storepb.Block, now int64) record {
	kept := slices.DeleteFunc(slices.Clone(r.Blocks), func(b *storepb.Block) bool { return b.Until <= now || b.Mark == one.Mark })
	return record{Blocks: append(kept, one)}
}

// Blocks are the cooldowns in force. Make it with New.
type Blocks struct {
	conn   *natskit.Conn
	log    *slog.Logger
	now    func() time.Time
	ledger *ledger.Ledger[record, *record]

	mu       sync.Mutex
	standing map[string]record
	// forgotten has the newest release of each counter.
	forgotten map[string]forgotten
	// loads counts the calls of Load.
	loads int
}

// forgotten is a release: its time in Unix milliseconds, and the part of the counter's
// record; "" for all.
type forgotten struct {
	at   int64
	mark string
}

// ends reports whether the release ends a block.
func (f forgotten) ends(b *storepb.Block) bool { return b.Began <= f.at && isOf(b, f.mark) }

// isOf reports whether a block is one of the given part of its record, or of the whole record.
func isOf(b *storepb.Block, mark string) bool { return mark == "" || b.Mark == "" || b.Mark == mark }

// New returns blocks that remember nothing yet.
func New(conn *natskit.Conn, reg prometheus.Registerer, log *slog.Logger, now func() time.Time) *Blocks {
	return &Blocks{
		conn: conn, log: log, now: now, standing: map[string]record{}, forgotten: map[string]forgotten{},
		ledger: ledger.New[record](conn, schemas.BucketBlocks, reg, ledger.WithConfirm()),
	}
}

// learn remembers the record of a counter.
func (b *Blocks) learn(key string, r record, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if released, ok := b.forgotten[key]; ok && now.UnixMilli() < released.at+lateness.Milliseconds() {
		r.Blocks = slices.DeleteFunc(slices.Clone(r.Blocks), released.ends)
	}
	r.load = b.loads
	if _, known := b.standing[key]; !known && len(b.standing) >= maxStanding {
		b.sweep(now.UnixMilli())
		if len(b.standing) >= maxStanding {
			return
		}
	}
	b.standing[key] = r
}

// sweep forgets the counters whose blocks are over; the lock is held.
func (b *Blocks) sweep(now int64) {
	for key, r := range b.standing {
		if !slices.ContainsFunc(r.Blocks, func(one *storepb.Block) bool { return one.Until > now }) {
			delete(b.standing, key)
		}
	}
}

// Forget forgets the blocks of a counter, or of one part of its record. Earlier blocks
// that are announced later are ignored.
func (b *Blocks) Forget(key, mark string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	released := forgotten{b.now().UnixMilli(), mark}
	if r, standing := b.standing[key]; standing {
		r.Blocks = slices.DeleteFunc(slices.Clone(r.Blocks), func(one *storepb.Block) bool { return isOf(one, mark) })
		if b.standing[key] = r; len(r.Blocks) == 0 {
			delete(b.standing, key)
		}
	}
	if len(b.forgotten) >= maxForgotten {
		clear(b.forgotten) // looking for the old ones at each of many releases would take long
	}
	b.forgotten[key] = released
}

// Remove removes the stored blocks of a counter, or of one part of its record.
func (b *Blocks) Remove(ctx context.Context, key, mark string) error {
	return b.ledger.Apply(ctx, key, func(r record) (record, time.Duration) {
		now := b.now().UnixMilli()
		kept := slices.DeleteFunc(slices.Clone(r.Blocks), func(one *storepb.Block) bool { return isOf(one, mark) || one.Until <= now })
		if len(kept) == len(r.Blocks) {
			return r, 0
		}
		longest := time.Duration(0)
		for _, one := range kept {
			longest = max(longest, time.Duration(one.Until-now)*time.Millisecond)
		}
		return record{Blocks: kept}, longest.Truncate(time.Second) + time.Second
	})
}

// Restore returns the state of a counter with its blocks in force, if the counter has no
// record.
func (b *Blocks) Restore(key string, s counter.State, now time.Time) counter.State {
	if s.Last != 0 || s.Count != 0 || len(s.Parts) > 0 {
		return s
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.standing[key].Blocks {
		if one.Until > now.UnixMilli() {
			s = s.WithBlock(one.Mark, one.Until, one.Incident)
		}
	}
	return s
}

// Keep stores a cooldown that begins.
func (b *Blocks) Keep(c *evaluate.Cooldown) {
	length := time.Duration(c.Finding.GetBlockedMs()) * time.Millisecond
	one := &storepb.Block{Mark: c.Part, Began: c.At.UnixMilli(), Until: c.At.Add(length).UnixMilli(), Incident: c.Incident}
	b.ledger.Start(context.Background(), c.Key, func(r record) (record, time.Duration) {
		next := r.with(one, c.At.UnixMilli())
		b.learn(c.Key, next, c.At)
		return next, length.Truncate(time.Second) + time.Second
	}, func(err error) {
		if err != nil {
			b.log.Debug("block is kept only in memory", "error", err)
		}
	})
}

// OnStored remembers the blocks that another detector stores.
func (b *Blocks) OnStored(m *nats.Msg) {
	var r record
	if len(m.Data) > 0 && len(m.Data) <= maxRecord && r.Parse(m.Data) == nil {
		b.learn(strings.TrimPrefix(m.Subject, subject), r, b.now())
	}
}

// Follow reads the stored blocks again after each reconnect, until the context ends: a
// release may have been missed.
func (b *Blocks) Follow(ctx context.Context, reconnected <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-reconnected:
			if err := b.Load(ctx); err != nil && ctx.Err() == nil {
				b.log.Warn("standing blocks could not be read again; a released one may return", "error", err)
			}
		}
	}
}

// Load reads the stored blocks, and forgets those that are not stored any more.
func (b *Blocks) Load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	b.mu.Lock()
	b.loads++
	b.mu.Unlock()
	for entry, err := range natskit.Entries(ctx, b.conn.JetStream(), schemas.BucketBlocks, ">", jetstream.IgnoreDeletes()) {
		if err != nil {
			return err
		}
		var r record
		if r.Parse(entry.Value()) == nil {
			b.learn(entry.Key(), r, b.now())
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.standing, func(_ string, r record) bool { return r.load < b.loads })
	return nil
}
