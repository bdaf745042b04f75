package logs

import (
	"bytes"
	"iter"
	"slices"
)

const (
	// waitingRequests and waitingBytes bound the requests that wait for older ones. A log may
	// be in the order of answers, and some answers take minutes.
	waitingRequests = 4096
	waitingBytes    = 64 << 20
)

// InOrder sorts requests by time as far as the limits on waiting requests allow. Requests without
// a time, and errors, keep their places.
func InOrder(requests iter.Seq2[Request, error]) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		var w waiting
		for q, err := range requests {
			if err != nil || q.Time.IsZero() {
				if !w.drain(0, 0, yield) || !yield(q, err) {
					return
				}
				continue
			}
			q.Body = bytes.Clone(q.Body) // it is only valid until the next one
			w.add(&q)
			if !w.drain(waitingRequests, waitingBytes, yield) {
				return
			}
		}
		w.drain(0, 0, yield)
	}
}

// waiting holds requests, the oldest first.
type waiting struct {
	list  []*Request
	bytes int
}

// add inserts a request after those that are not newer.
func (w *waiting) add(q *Request) {
	w.bytes += q.size()
	at, _ := slices.BinarySearchFunc(w.list, q, func(waits, q *Request) int {
		if waits.Time.After(q.Time) {
			return 1
		}
		return -1
	})
	w.list = slices.Insert(w.list, at, q)
}

// drain yields the oldest requests until at most the given number of requests and of bytes
// are left. It returns false when the caller wants no more.
func (w *waiting) drain(requests, size int, yield func(Request, error) bool) bool {
	for len(w.list) > 0 && (len(w.list) > requests || w.bytes > size) {
		next := w.list[0]
		w.list[0], w.list = nil, w.list[1:]
		w.bytes -= next.size()
		if !yield(*next, nil) {
			return false
		}
	}
	return true
}

// size returns the number of bytes that a request holds.
func (q *Request) size() int {
	n := len(q.Body)
	for _, m := range q.Added {
		n += len(m)
	}
	return n
}
