package board

import (
	"container/list"
	"sync"

	"github.com/unloop/unloop/schemas/storepb"
)

// Records holds the values of one bucket by key, the newest if there are too many. A value
// is decoded when it is read for the first time: most are replaced before.
type Records[T any] struct {
	most    int
	changed func()
	// removed, if not nil, gets each value that is removed, and evicted each for which there is
	// no room any more, with its key.
	removed func(T)
	evicted func(string, T)

	mu      sync.Mutex
	byKey   map[string]*list.Element
	order   *list.List // of *record[T], those that were written last at the front
	dropped bool
}

type record[T any] struct {
	key     string
	stored  []byte
	decoded bool
	value   *T // nil if the stored bytes are no T
}

// maxRecord bounds the size of a value, in bytes. Larger ones are left out.
const maxRecord = 256 << 10

// newRecords returns an empty set that holds at most most records. changed is called after
// each change.
func newRecords[T any](most int, changed func()) *Records[T] {
	return &Records[T]{most: most, changed: changed, byKey: map[string]*list.Element{}, order: list.New()}
}

// Put sets the value of a key.
func (r *Records[T]) Put(key string, value []byte) {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(key, value)
}

// put sets the value of a key. The caller holds the lock.
func (r *Records[T]) put(key string, value []byte) {
	if len(value) > maxRecord {
		r.remove(key)
		r.dropped = true
		return
	}
	rec := &record[T]{key: key, stored: value}
	if e, known := r.byKey[key]; known {
		e.Value = rec
		r.order.MoveToFront(e)
		return
	}
	r.byKey[key] = r.order.PushFront(rec)
	if r.order.Len() > r.most {
		r.evict(r.order.Back())
	}
}

// evict makes room for another record. The caller holds the lock.
func (r *Records[T]) evict(e *list.Element) {
	rec := e.Value.(*record[T])
	r.order.Remove(e)
	delete(r.byKey, rec.key)
	r.dropped = true
	if v := rec.read(); v != nil && r.evicted != nil {
		r.evicted(rec.key, *v)
	}
}

// Delete removes a key.
func (r *Records[T]) Delete(key string) {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
}

func (r *Records[T]) remove(key string) {
	e, known := r.byKey[key]
	if !known {
		return
	}
	r.order.Remove(e)
	delete(r.byKey, key)
	if r.removed == nil {
		return
	}
	if v := e.Value.(*record[T]).read(); v != nil {
		r.removed(*v)
	}
}

// Entry is a key with its value.
type Entry struct {
	Key   string
	Value []byte
}

// Replace sets all records, given in the order in which they were written.
func (r *Records[T]) Replace(all []Entry) {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.byKey)
	r.order.Init()
	r.dropped = false
	for _, e := range all {
		r.put(e.Key, e.Value)
	}
}

// DeleteFunc removes the records that match.
func (r *Records[T]) DeleteFunc(match func(T) bool) {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.byKey {
		if v := e.Value.(*record[T]).read(); v != nil && match(*v) {
			r.remove(key)
		}
	}
}

// All returns the values, those that were written last first, and whether some were left
// out. They must not be changed.
func (r *Records[T]) All() (all []T, omitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = make([]T, 0, r.order.Len())
	for e := r.order.Front(); e != nil; e = e.Next() {
		if v := e.Value.(*record[T]).read(); v != nil {
			all = append(all, *v)
		}
	}
	return all, r.dropped
}

// read decodes the value. The caller holds the lock of the records.
func (r *record[T]) read() *T {
	if !r.decoded {
		var v T
		if storepb.Read(r.stored, &v) == nil {
			r.value = &v
		}
		r.decoded, r.stored = true, nil
	}
	return r.value
}
