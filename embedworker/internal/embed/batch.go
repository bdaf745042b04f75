package embed

import (
	"context"
	"fmt"
	"sync"
)

// runner computes a vector for each row of token ids. The rows of one call have similar lengths.
type runner interface {
	run(rows [][]int32) ([][]float32, error)
}

// batcher runs rows that wait at the same time together, grouped by length so that little is
// computed for padding. It does not wait for more rows.
type batcher struct {
	runner   runner
	limits   Limits
	onRun    func(texts int)
	mu       sync.Mutex
	wake     sync.Cond
	queues   [len(bucketEnds) + 1][]*row
	waiting  int
	sequence uint64
	closed   bool
	running  sync.WaitGroup
}

// bucketEnds are the lengths of the longest rows of each group but the last, in tokens.
var bucketEnds = [...]int{16, 32, 64, 128}

// runTokens bounds the tokens of a run: one long row keeps the processor busy, and several would
// only delay each other.
const runTokens = 512

// row is a text that is being embedded.
type row struct {
	ids      []int32
	order    uint64
	canceled func() bool
	done     func([]float32, error)
}

func newBatcher(r runner, limits Limits, onRun func(texts int)) *batcher {
	if onRun == nil {
		onRun = func(int) {}
	}
	b := &batcher{runner: r, limits: limits, onRun: onRun}
	b.wake.L = &b.mu
	b.running.Go(b.loop)
	return b
}

// vectors runs rows and waits for the results. It returns ErrBusy at once if the queue is full.
func (b *batcher) vectors(ctx context.Context, rows [][]int32) ([][]float32, error) {
	out := make([][]float32, len(rows))
	results := make(chan error, len(rows))
	queued := make([]*row, len(rows))
	for i, ids := range rows {
		queued[i] = &row{ids: ids, canceled: func() bool { return ctx.Err() != nil }, done: func(v []float32, err error) {
			out[i] = v
			results <- err
		}}
	}
	if err := b.enqueue(queued); err != nil {
		return nil, err
	}
	var failed error
	for range rows {
		select {
		case err := <-results:
			if err != nil {
				failed = err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, failed
}

func (b *batcher) enqueue(rows []*row) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return ErrClosed
	}
	if b.waiting > 0 && b.waiting+len(rows) > b.limits.Queue {
		return fmt.Errorf("%w: %d texts are waiting", ErrBusy, b.waiting)
	}
	for _, r := range rows {
		r.order = b.sequence
		b.sequence++
		q := bucket(len(r.ids))
		b.queues[q] = append(b.queues[q], r)
	}
	b.waiting += len(rows)
	b.wake.Signal()
	return nil
}

func bucket(tokens int) int {
	for i, end := range bucketEnds {
		if tokens <= end {
			return i
		}
	}
	return len(bucketEnds)
}

// longest returns the length of the longest row of a group, in tokens.
func (b *batcher) longest(queue int) int {
	if queue < len(bucketEnds) {
		return bucketEnds[queue]
	}
	return b.limits.Tokens
}

func (b *batcher) loop() {
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		b.execute(batch)
	}
}

// take waits for rows and returns some of the group whose first row has waited longest. It
// returns nil when the batcher is closed and empty.
func (b *batcher) take() []*row {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.waiting == 0 {
		if b.closed {
			return nil
		}
		b.wake.Wait()
	}
	oldest := -1
	for q, rows := range b.queues {
		if len(rows) > 0 && (oldest < 0 || rows[0].order < b.queues[oldest][0].order) {
			oldest = q
		}
	}
	rows := b.queues[oldest]
	n := min(len(rows), b.limits.Batch, max(1, runTokens/b.longest(oldest)))
	b.queues[oldest] = rows[n:]
	b.waiting -= n
	if b.waiting > 0 {
		b.wake.Signal()
	}
	return rows[:n]
}

func (b *batcher) execute(batch []*row) {
	live := make([]*row, 0, len(batch))
	ids := make([][]int32, 0, len(batch))
	for _, r := range batch {
		if r.canceled() {
			r.done(nil, context.Canceled)
			continue
		}
		live, ids = append(live, r), append(ids, r.ids)
	}
	if len(live) == 0 {
		return
	}
	b.onRun(len(ids))
	vectors, err := b.runner.run(ids)
	for i, r := range live {
		if err != nil {
			r.done(nil, err)
			continue
		}
		r.done(vectors[i], nil)
	}
}

// close refuses new rows and finishes those that wait.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.wake.Broadcast()
	b.mu.Unlock()
	b.running.Wait()
}
