package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// errMoved means that the record has moved to another bucket.
var errMoved = errors.New("record has moved")

// moveTimeout bounds the search for a record. movedPause is the pause before the next look
// for one that has moved to a partition that this process does not know yet.
const moveTimeout, movedPause = 5 * time.Second, 10 * time.Millisecond

// locate finds the bucket of a cell's record (package partition). If that takes a request, it
// returns false and continues the cell's write later.
func (l *Ledger[S, P]) locate(c *cell[S]) bool {
	if !l.spread {
		c.place = l.bucket
		return true
	}
	scheme, fresh := l.conn.UsePartitions()
	if !fresh {
		go l.relocate(c, l.conn.AskPartitions)
		return false
	}
	if place := scheme.Place(l.bucket, c.key); place != c.place {
		c.place, c.seen, c.known, c.settled = place, revision[S]{}, false, false
	}
	if c.settled || c.seen.seq > 0 || l.former(scheme, c.key) == "" {
		return true
	}
	c.settled = true
	if l.parted {
		l.inherit(c, l.former(scheme, c.key))
		return false
	}
	c.known = false
	go l.relocate(c, func(ctx context.Context) error { return l.mover.Move(ctx, scheme, l.bucket, c.key) })
	return false
}

// former returns the bucket that may still have a key's record; "" for none.
func (l *Ledger[S, P]) former(scheme partition.Scheme, key string) string {
	if l.parted {
		return scheme.Inherits(l.bucket, key, time.Now())
	}
	return scheme.Former(l.bucket, key)
}

// relocate continues a cell's write after a request.
func (l *Ledger[S, P]) relocate(c *cell[S], request func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), moveTimeout)
	defer cancel()
	if err := request(ctx); err != nil {
		l.finish(c, fmt.Errorf("%w: find %s: %w", ErrUnavailable, c.key, err))
		return
	}
	l.try(c)
}

// moved continues a cell's write after its record has moved.
func (l *Ledger[S, P]) moved(c *cell[S]) {
	before := l.conn.Partitions()
	c.seen, c.known, c.settled = revision[S]{}, false, false
	go l.relocate(c, func(ctx context.Context) error {
		err := l.conn.AskPartitions(ctx)
		if err == nil && before == l.conn.Partitions() {
			err = pause.For(ctx, movedPause)
		}
		return err
	})
}

// inherit starts a record in parts from its former place, if its present place has none.
func (l *Ledger[S, P]) inherit(c *cell[S], former string) {
	found := func(rev revision[S], err error) {
		if err != nil {
			l.finish(c, err)
			return
		}
		c.seen, c.known = rev, true
		l.try(c)
	}
	l.get(c.place, c.key, c.seen.record, func(rev revision[S], err error) {
		if err != nil || rev.seq > 0 {
			found(rev, err)
			return
		}
		l.inherited(former, c.key, found)
	})
}

// inherited reads a record in parts at its former place, and returns it as a new one.
func (l *Ledger[S, P]) inherited(former, key string, done func(revision[S], error)) {
	var none S
	l.get(former, key, none, func(rev revision[S], err error) {
		if errors.Is(err, ErrNoBucket) {
			err = nil
		}
		if p := parts[S, P](&rev.record); err == nil && rev.seq > 0 {
			rev = revision[S]{record: p.Whole()}
		}
		done(rev, err)
	})
}

// found returns the place of a key's record, after moving it there if necessary.
func (l *Ledger[S, P]) found(ctx context.Context, key string) (place, former string, err error) {
	if !l.spread {
		return l.bucket, "", nil
	}
	scheme, fresh := l.conn.UsePartitions()
	if !fresh {
		err = l.conn.AskPartitions(ctx)
		scheme = l.conn.Partitions()
	}
	former = l.former(scheme, key)
	if err == nil && former != "" && !l.parted {
		err = l.mover.Move(ctx, scheme, l.bucket, key)
	}
	if err != nil {
		err = fmt.Errorf("%w: find %s: %w", ErrUnavailable, key, err)
	}
	return scheme.Place(l.bucket, key), former, err
}

// Read returns a key's record; the zero record if there is none.
func (l *Ledger[S, P]) Read(ctx context.Context, key string) (S, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	for {
		rev, err := l.readOnce(ctx, key)
		if !errors.Is(err, errMoved) {
			return rev.record, err
		}
		if err = l.conn.AskPartitions(ctx); err == nil {
			err = pause.For(ctx, movedPause)
		}
		if err != nil {
			return rev.record, fmt.Errorf("%w: find %s: %w", ErrUnavailable, key, err)
		}
	}
}

func (l *Ledger[S, P]) readOnce(ctx context.Context, key string) (revision[S], error) {
	place, former, err := l.found(ctx, key)
	if err != nil {
		return revision[S]{}, err
	}
	type read struct {
		rev revision[S]
		err error
	}
	done := make(chan read, 1)
	var none S
	l.get(place, key, none, func(rev revision[S], err error) {
		if l.parted && former != "" && err == nil && rev.seq == 0 {
			l.inherited(former, key, func(rev revision[S], err error) { done <- read{rev, err} })
			return
		}
		done <- read{rev, err}
	})
	r := <-done
	return r.rev, r.err
}
