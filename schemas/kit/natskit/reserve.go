package natskit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// roomKnown is how long it counts whether a bucket had room.
const roomKnown = time.Second

// Room says whether a bucket that refuses new records has room for another key. From
// FullFrom on there is none: the rest is for the records that are there, which grow. Make
// it with NewRoom.
type Room struct {
	conn   *Conn
	bucket string
	mu     sync.Mutex
	// looked is the time of the last look, full its result; looking says that one is under
	// way.
	looked        time.Time
	full, looking bool
}

// NewRoom returns the room of a bucket.
func NewRoom(conn *Conn, bucket string) *Room { return &Room{conn: conn, bucket: bucket} }

// Take returns ErrFull if there was no room a second ago or later. If the server does not
// say, the bucket itself has to refuse the record.
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

// Full reports whether there was no room at the last look. It waits for nothing: a look that
// is due is made meanwhile.
func (r *Room) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.looking && time.Since(r.looked) > roomKnown {
		r.looking = true
		go r.look(context.Background())
	}
	return r.full
}

func (r *Room) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, roomKnown)
	defer cancel()
	stream, err := r.conn.JetStream().Stream(ctx, BucketStream(r.bucket))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked, r.looking, r.full = time.Now(), false, err == nil && Fullness(stream.CachedInfo()) >= FullFrom
}
