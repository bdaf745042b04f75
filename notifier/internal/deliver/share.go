package deliver

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// shared is the part of the bucket that endpoints share evenly. The rest is for claims and
	// throttles.
	shared = 0.9
	// roomKnown is how long the size of the bucket is cached.
	roomKnown = 10 * time.Second
	// recordOverhead is the approximate size of a record in bytes, without key and value.
	recordOverhead = 200
	// sweepEvery is the least time between two removals of expired records.
	sweepEvery = time.Second
)

// errShare says why an event is not queued.
var errShare = errors.New("messages for the endpoint fill its share of " + schemas.BucketNotifications)

// room is the size of the bucket.
type room struct {
	mu     sync.Mutex
	bytes  float64
	looked time.Time
}

// share returns how many bytes the records of one endpoint may take. There is one more share
// than endpoints, because messages to a renamed endpoint stay for weeks. The share is infinite
// if the bucket has no bound or the server does not report it.
func (p *Pipeline) share(ctx context.Context) float64 {
	p.mu.Lock()
	shares := float64(len(p.using) + 1)
	p.mu.Unlock()
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if time.Since(p.room.looked) > roomKnown {
		p.room.bytes, p.room.looked = math.Inf(1), time.Now()
		stream, err := p.NATS.JetStream().Stream(ctx, natskit.BucketStream(schemas.BucketNotifications))
		if err == nil && stream.CachedInfo().Config.MaxBytes > 0 {
			p.room.bytes = float64(stream.CachedInfo().Config.MaxBytes)
		}
	}
	return p.room.bytes * shared / shares
}

// overShare reports whether the endpoint's records take more than its share.
func (e *endpoint) overShare(ctx context.Context) bool {
	share := e.share(ctx)
	part := e.usage.bytes(time.Now(), share) / share
	e.report.share.Set(part)
	return part >= 1
}

// usage adds up the sizes of an endpoint's records.
type usage struct {
	mu        sync.Mutex
	records   map[string]stored
	total     float64
	lastSweep time.Time
}

// stored is a record's size in bytes and its expiry. Followers are not notified of expiries.
type stored struct {
	bytes float64
	until time.Time
}

func newUsage() *usage { return &usage{records: map[string]stored{}} }

func (u *usage) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.records)
	u.total = 0
}

// put notes the size of a stored record; 0 if it was removed.
func (u *usage) put(key string, bytes int, until time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remove(key)
	if bytes > 0 {
		s := stored{float64(bytes + len(key) + recordOverhead), until}
		u.records[key] = s
		u.total += s.bytes
	}
}

// remove forgets a record. The caller holds the lock.
func (u *usage) remove(key string) {
	u.total -= u.records[key].bytes
	delete(u.records, key)
}

// bytes returns the sum. If it exceeds a bound, expired records are removed first.
func (u *usage) bytes(now time.Time, bound float64) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.total >= bound && now.Sub(u.lastSweep) >= sweepEvery {
		u.lastSweep = now
		for key, s := range u.records {
			if now.After(s.until) {
				u.remove(key)
			}
		}
	}
	return u.total
}
