package board

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/unloop/unloop/schemas/storepb"
)

// Records holds the newest values of one bucket by key. A value is decoded when it is first
// read, because most are replaced before.
type Records[T any] struct {
	most    int
	changed func()
	// removed and evicted, if not nil, get each value that is removed, or evicted for lack of
	// room.
	removed func(T)
	evicted func(string, T)

	mu      sync.Mutex
	kept    *simplelru.LRU[string, *record[T]] // in the order in which they were written
	dropped bool
}

type record[T any] struct {
	stored  []byte
	decoded bool
	value   *T // nil if the bytes can't be decoded
}

// maxRecord bounds the size of a value, in bytes. Larger ones are ignored.
const maxRecord = 256 << 10

// newRecords returns an empty set of up to most records. changed is called after each change.
func newRecords[T any](most int, changed func()) *Records[T] {
	return &Records[T]{most: most, changed: changed, kept: newest[*record[T]](most + 1)}
}

// newest returns a map that keeps the values added last.
func newest[V any](most int) *simplelru.LRU[string, V] {
	kept, _ := simplelru.NewLRU[string, V](most, nil) // only a size below 1 is an error
	return kept
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
	r.kept.Add(key, &record[T]{stored: value})
	if r.kept.Len() > r.most {
		r.evict()
	}
}

// evict makes room for another record. The caller holds the lock.
func (r *Records[T]) evict() {
	key, rec, _ := r.kept.RemoveOldest() // there is one
	r.dropped = true
	if v := rec.read(); v != nil && r.evicted != nil {
		r.evicted(key, *v)
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
	rec, _ := r.kept.Peek(key)
	if !r.kept.Remove(key) || r.removed == nil {
		return
	}
	if v := rec.read(); v != nil {
		r.removed(*v)
	}
}

// Entry is a key with its value.
type Entry struct {
	Key   string
	Value []byte
}

// Replace sets all records, in the order in which they were written.
func (r *Records[T]) Replace(all []Entry) {
	defer r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept.Purge()
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
	for _, key := range r.kept.Keys() {
		rec, _ := r.kept.Peek(key)
		if v := rec.read(); v != nil && match(*v) {
			r.remove(key)
		}
	}
}

// All returns the values, last written first, and whether some were dropped. They must not be
// modified.
func (r *Records[T]) All() (all []T, omitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all = make([]T, 0, r.kept.Len())
	for _, rec := range slices.Backward(r.kept.Values()) {
		if v := rec.read(); v != nil {
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
