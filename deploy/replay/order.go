package replay

import (
	"bytes"
	"container/heap"
	"iter"

	"github.com/unloop/unloop/deploy/replay/logs"
)

const (
	// waitingRequests and waitingBytes bound the requests that wait for older ones:
	// a recording has them in the order in which they were answered, and some
	// answers take minutes.
	waitingRequests = 4096
	waitingBytes    = 64 << 20
)

// InOrder returns the requests in the order of their times, as far as they are not
// too far from their places. Those without a time, and errors, keep their places.
func InOrder(requests iter.Seq2[logs.Request, error]) iter.Seq2[logs.Request, error] {
	return func(yield func(logs.Request, error) bool) {
		var w waiting
		for q, err := range requests {
			if err != nil || q.Time.IsZero() {
				if !w.drain(0, 0, yield) || !yield(q, err) {
					return
				}
				continue
			}
			q.Body = bytes.Clone(q.Body) // it is only lent
			w.add(q)
			if !w.drain(waitingRequests, waitingBytes, yield) {
				return
			}
		}
		w.drain(0, 0, yield)
	}
}

// waiting is a heap of requests, the oldest first.
type waiting struct {
	list  []numbered
	seen  int
	bytes int
}

// numbered is a request with its place, which decides between equal times.
type numbered struct {
	logs.Request
	n int
}

func (w *waiting) add(q logs.Request) {
	w.seen++
	w.bytes += len(q.Body)
	heap.Push(w, numbered{q, w.seen})
}

// drain yields the oldest until no more than so many wait.
func (w *waiting) drain(requests, size int, yield func(logs.Request, error) bool) bool {
	for len(w.list) > 0 && (len(w.list) > requests || w.bytes > size) {
		next, ok := heap.Pop(w).(numbered)
		if !ok {
			return false
		}
		w.bytes -= len(next.Body)
		if !yield(next.Request, nil) {
			return false
		}
	}
	return true
}

// Len, Less, Swap, Push and Pop make it a heap.
func (w *waiting) Len() int { return len(w.list) }

// Less reports which one is older.
func (w *waiting) Less(i, j int) bool {
	if c := w.list[i].Time.Compare(w.list[j].Time); c != 0 {
		return c < 0
	}
	return w.list[i].n < w.list[j].n
}

// Swap swaps two.
func (w *waiting) Swap(i, j int) { w.list[i], w.list[j] = w.list[j], w.list[i] }

// Push appends one.
func (w *waiting) Push(x any) {
	if q, ok := x.(numbered); ok {
		w.list = append(w.list, q)
	}
}

// Pop takes the last one.
func (w *waiting) Pop() any {
	last := w.list[len(w.list)-1]
	w.list = w.list[:len(w.list)-1]
	return last
}
