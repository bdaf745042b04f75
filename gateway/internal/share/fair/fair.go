// Package fair shares scarce resources between callers: a queue serves callers round-robin,
// and no caller gets all of a bounded resource.
//
// It knows neither the resource nor how callers are identified.
package fair

import (
	"container/list"
	"context"
)

// Caller identifies a caller of a gateway.
type Caller uint64

type callerKey struct{}

// WithCaller returns a context for work on behalf of a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerIn returns the caller in a context; 0 if it has none.
func CallerIn(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// May reports whether a caller that holds own may take n more while free is left: it gets no
// more than it leaves free. So a single caller gets at most half, and something is always
// left for a caller that holds nothing.
func May(own, n, free int64) bool { return own+n <= free-n }

// Most returns the largest share of a resource that a caller may hold.
func Most(room int64) int64 { return room / 2 }

// Queue is a queue in which callers take turns; the values of one caller keep their order.
// The zero Queue is empty. It is not safe for concurrent use.
type Queue[T any] struct {
	lines map[Caller]*line
	// order has the nonempty lines; the first has the next turn.
	order list.List
	n     int
}

// line has the values of one caller.
type line struct {
	caller Caller
	values list.List
	place  *list.Element // in the order
}

// Place is the place of a value in a queue.
type Place struct {
	line *line
	at   *list.Element
}

// Len returns how many values wait.
func (q *Queue[T]) Len() int { return q.n }

// LenOf returns how many values of a caller wait.
func (q *Queue[T]) LenOf(c Caller) int {
	if l := q.lines[c]; l != nil {
		return l.values.Len()
	}
	return 0
}

// Push appends a value to those of its caller.
func (q *Queue[T]) Push(c Caller, v T) Place {
	l := q.lines[c]
	if l == nil {
		if q.lines == nil {
			q.lines = map[Caller]*line{}
		}
		l = &line{caller: c}
		l.place = q.order.PushBack(l)
		q.lines[c] = l
	}
	q.n++
	return Place{l, l.values.PushBack(v)}
}

// Pop removes and returns the first value of the next caller for which ready returns true,
// and ends that caller's turn. It returns false if there is none.
func (q *Queue[T]) Pop(ready func(T) bool) (v T, found bool) {
	return q.PopWithin(len(q.lines), ready)
}

// PopWithin is Pop for at most the next most callers, which bounds its time. If none of them
// is ready, they move to the end, so that the next call looks at others.
func (q *Queue[T]) PopWithin(most int, ready func(T) bool) (v T, found bool) {
	further := q.order.Len() > most
	for at := q.order.Front(); at != nil && most > 0; most-- {
		l, next := at.Value.(*line), at.Next()
		first := l.values.Front()
		if v = first.Value.(T); ready(v) {
			q.order.MoveToBack(at)
			q.remove(l, first)
			return v, true
		}
		if further {
			q.order.MoveToBack(at)
		}
		at = next
	}
	var none T
	return none, false
}

// Remove removes the value at a place, which must not have left the queue.
func (q *Queue[T]) Remove(p Place) { q.remove(p.line, p.at) }

func (q *Queue[T]) remove(l *line, at *list.Element) {
	l.values.Remove(at)
	q.n--
	if l.values.Len() == 0 {
		q.order.Remove(l.place)
		delete(q.lines, l.caller)
	}
}
