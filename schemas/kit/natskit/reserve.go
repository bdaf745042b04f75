package natskit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/partition"
)

const (
	// roomKnown is how long the result of a look is valid.
	roomKnown = time.Second
	// grantShare is the divisor of the room that each look grants: several processes create
	// records, and none knows what the others created since.
	grantShare = 8
	// leastGrant is the least grant while there is room, in bytes.
	leastGrant = 4 << 10
)

// Room reports whether a bucket that refuses new records when full has room for another key in
// its fullest partition. From FullFrom on there is none: the rest is for the growth of
// existing records. Make it with NewRoom.
type Room struct {
	conn   *Conn
	bucket string
	mu     sync.Mutex
	// looked is the time of the last look, full its result; looking is set during a look.
	looked        time.Time
	full, looking bool
	// room was the room for new records at that time, in bytes.
	room int64
	// granted is the number of bytes that new records may still take before the next look;
	// negative if the room is not known.
	granted int64
	// low is the value of granted below which the next look is made early.
	low int64
	// taken is the size of new records since the last look, which may not be stored yet.
	taken int64
}

// NewRoom returns the room of a bucket.
func NewRoom(conn *Conn, bucket string) *Room { return &Room{conn: conn, bucket: bucket, granted: -1} }

// Take returns ErrFull if there was no room within the last second. If that is not known, the
// bucket itself has to refuse the record.
func (r *Room) Take(ctx context.Context) error {
	r.mu.Lock()
	known := time.Since(r.looked) <= roomKnown
	r.mu.Unlock()
	if !known {
		r.look(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return fmt.Errorf("%s: %w", r.bucket, ErrFull)
	}
	return nil
}

// Full reports whether there was no room at the last look. It does not block: if a look is
// due, it happens in the background.
func (r *Room) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookIf(false)
	return r.full
}

// Grant takes room for a new record of a size in bytes; false if there is none. It does not
// block. While the room is not known, it returns true, and the bucket itself has to refuse
// the record.
func (r *Room) Grant(size int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.granted < 0 {
		r.lookIf(false)
		return true
	}
	enough := r.granted >= size
	if enough {
		r.granted -= size
		r.taken += size
	}
	r.lookIf(r.granted < r.low)
	return enough
}

// Left returns the room at the last look in bytes, less what was granted since; false if not
// known.
func (r *Room) Left() (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.room - r.taken, r.granted >= 0
}

// lookIf starts a look in the background if one is due or needed. The caller holds the lock.
func (r *Room) lookIf(needed bool) {
	if !r.looking && (needed || time.Since(r.looked) > roomKnown) {
		r.looking = true
		go r.look(context.Background())
	}
}

func (r *Room) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, roomKnown)
	defer cancel()
	var parts []*jetstream.StreamInfo
	var fault error
	for _, name := range partition.Names(r.bucket, r.conn.Partitions().Count) {
		stream, err := r.conn.JetStream().Stream(ctx, BucketStream(name))
		if fault = errors.Join(fault, err); err == nil {
			parts = append(parts, stream.CachedInfo())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked, r.looking, r.full, r.granted, r.room = time.Now(), false, false, -1, 0
	if fault != nil {
		return
	}
	for _, info := range parts {
		r.full = r.full || Fullness(info) >= FullFrom
		left, bound := r.left(info)
		r.room += left
		if granted := min(left, max(left/grantShare, leastGrant)); bound && (r.granted < 0 || granted < r.granted) {
			r.granted = granted
		}
	}
	r.low, r.taken = r.granted/2, 0
}

// left returns the room of a stream for new records; false if it has no bound.
func (r *Room) left(info *jetstream.StreamInfo) (bytes int64, bound bool) {
	most := info.Config.MaxBytes
	if most <= 0 {
		return 0, false
	}
	left := max(int64(FullFrom*float64(most))-int64(info.State.Bytes)-r.taken, 0)
	return left, true
}
