package ledger

import (
	"errors"
	"slices"
	"time"

	"github.com/unloop/unloop/schemas/kit/jsanswer"
)

// cell is a key with pending steps, and exists only while there are any. All fields except
// waiting belong to the goroutine that continues its write.
type cell[S any] struct {
	key string
	// place is the bucket that has the record. settled is set once the record was moved
	// there, if necessary.
	place   string
	settled bool
	// waiting are the steps for the next write.
	waiting []pending[S]
	// batch are the steps of the current write.
	batch []pending[S]
	// seen is the last version of the record that this process saw. If known is set, a step
	// that changes nothing may rely on it.
	seen  revision[S]
	known bool
	// unread is set if the record still has to be parsed.
	unread   bool
	attempts int
	// behind is set if the callers of the batch do not wait for its write.
	behind bool
}

// enqueue adds a step, and returns the key's cell if the caller has to start its write.
func (l *Ledger[S, P]) enqueue(key string, p pending[S]) *cell[S] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, busy := l.cells[key]; busy {
		c.waiting = append(c.waiting, p)
		return nil
	}
	c := &cell[S]{key: key, batch: []pending[S]{p}}
	l.recall(c)
	l.cells[key] = c
	return c
}

// finish ends the batch without a write and continues with the waiting steps, in a new
// goroutine: without a server each try may fail at once, and recursion would have no bound.
func (l *Ledger[S, P]) finish(c *cell[S], err error) {
	if l.notify(c, err) {
		go l.try(c)
	}
}

// notify reports the result of a write to the caller of each step in it. If no step waits for
// the key, it removes the cell and returns false.
func (l *Ledger[S, P]) notify(c *cell[S], err error) (more bool) {
	done := c.batch
	more = l.advance(c)
	for _, p := range done {
		p.done(err)
	}
	return more
}

func (l *Ledger[S, P]) advance(c *cell[S]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.batch, c.waiting, c.attempts, c.behind = c.waiting, nil, 0, false
	if len(c.batch) == 0 {
		delete(l.cells, c.key)
		return false
	}
	l.recall(c)
	return true
}

// recall starts a batch with the cached record, unless that has expired. The caller holds the
// lock.
func (l *Ledger[S, P]) recall(c *cell[S]) {
	m, cached := l.cache.get(c.key)
	if cached && m.until > 0 && time.Since(l.began) > m.until {
		m, cached = remembered[S]{}, false
	}
	c.seen, c.known, c.place, c.settled = revision[S]{stored: m.stored, version: m.version}, cached && !l.confirm, m.place, false
	if m.record != nil {
		c.seen.record = *m.record
	}
	c.unread = m.stored != nil
}

// try applies a batch to the last version of the record that this process saw, and writes the
// result; written continues.
func (l *Ledger[S, P]) try(c *cell[S]) {
	if c.batch = l.dropForeign(c.key, dropLate(c.batch)); len(c.batch) == 0 {
		l.finish(c, nil)
		return
	}
	if c.unread {
		c.unread = false
		_ = P(&c.seen.record).Parse(c.seen.stored) // it was written or read before
	}
	if !l.locate(c) {
		return
	}
	if c.attempts++; c.attempts > maxAttempts {
		l.finish(c, ErrContended)
		return
	}
	next, ttl := fold(c.seen.record, c.batch)
	switch {
	case ttl > 0:
		stored := P(&next).Append(l.buffer(c.seen.size))
		l.leave(c)
		l.put(c.place, c.key, l.slot(&next), stored, c.seen.seq, ttl, func(seq uint64, err error) {
			l.written(c, revision[S]{next, stored, version{place: c.place, seq: seq, size: len(stored), until: time.Since(l.began) + ttl}}, err)
		})
	case c.known:
		l.finish(c, nil)
	default: // nothing to change, unless there is a record that this process never saw
		l.reread(c)
	}
}

// buffer returns a buffer for the stored form of a record that had size bytes before.
func (l *Ledger[S, P]) buffer(size int) []byte {
	const usual, grown = 256, 64
	if l.parted { // one part is stored
		return nil
	}
	return make([]byte, 0, max(usual, size+grown))
}

// written ends a write, or reads the record after another process won.
func (l *Ledger[S, P]) written(c *cell[S], stored revision[S], err error) {
	switch {
	case err != nil && c.behind:
		l.metrics.behind.Inc()
		l.forget(c.key)
		l.finish(c, nil)
	case errors.Is(err, jsanswer.ErrConflict):
		l.metrics.conflicts.Inc()
		l.lost(c)
	case err != nil:
		l.finish(c, err)
	default:
		l.metrics.writes.Inc()
		l.metrics.folded.Add(float64(len(c.batch) - 1))
		if p := parts[S, P](&stored.record); p != nil {
			p.Stored(stored.seq)
			stored.size = p.Size()
		}
		l.remember(c.key, stored)
		if l.notify(c, nil) {
			l.try(c)
		}
	}
}

// leave calls back for a batch before it is stored, if no caller waits for that and the
// version that it follows can be trusted.
func (l *Ledger[S, P]) leave(c *cell[S]) {
	if l.trusted == nil || c.seen.seq == 0 || c.seen.at.Before(l.trusted()) {
		return
	}
	for _, p := range c.batch {
		if p.behind == nil || !p.behind() {
			return
		}
	}
	c.behind = true
	for i := range c.batch {
		c.batch[i].done(nil)
		c.batch[i].done = func(error) {}
	}
}

// forget removes a record from the cache, so that the next step reads it.
func (l *Ledger[S, P]) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.drop(key)
}

// lost continues a write that another process won.
func (l *Ledger[S, P]) lost(c *cell[S]) {
	if l.owners != nil {
		l.owners.Contended(l.bucket, c.key)
	}
	if c.batch = l.dropForeign(c.key, c.batch); len(c.batch) == 0 {
		l.finish(c, nil)
		return
	}
	l.reread(c)
}

func (l *Ledger[S, P]) reread(c *cell[S]) {
	l.get(c.place, c.key, c.seen.record, func(rev revision[S], err error) {
		if errors.Is(err, errMoved) {
			l.moved(c)
			return
		}
		if err != nil {
			l.finish(c, err)
			return
		}
		if rev.seq == 0 && c.seen.seq > 0 { // not because of its TTL: recall ignores expired records
			l.metrics.lost.Inc()
		}
		rev.at = time.Now()
		c.seen, c.known = rev, true
		if rev.seq > 0 {
			l.remember(c.key, rev)
		}
		l.try(c)
	})
}

func (l *Ledger[S, P]) remember(key string, rev revision[S]) {
	m := remembered[S]{version: rev.version}
	m.at = time.Now()
	if l.packed {
		m.stored = slices.Clone(rev.stored) // without the room of its buffer
	} else {
		m.record = &rev.record
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache.put(key, m, m.size)
}

// dropLate removes the steps whose context has ended.
func dropLate[S any](batch []pending[S]) []pending[S] {
	kept := batch[:0]
	for _, p := range batch {
		if err := p.ctx.Err(); err != nil {
			p.done(err)
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// dropForeign removes the steps that belong to another process.
func (l *Ledger[S, P]) dropForeign(key string, batch []pending[S]) []pending[S] {
	if l.owners == nil || len(batch) == 0 {
		return batch
	}
	owner := l.owners.Owner(l.bucket, key)
	if owner == "" {
		return batch
	}
	kept := batch[:0]
	for _, p := range batch {
		if p.ctx.Value(stay{}) != nil {
			kept = append(kept, p)
			continue
		}
		p.done(&ElsewhereError{owner})
	}
	return kept
}

// fold applies the steps in order. The TTL is that of the last step that changes the record.
func fold[S any](record S, batch []pending[S]) (S, time.Duration) {
	var keep time.Duration
	for _, p := range batch {
		if next, ttl := p.step(record); ttl > 0 {
			record, keep = next, ttl
		}
	}
	return record, keep
}
