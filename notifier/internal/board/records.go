package board

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
	kept    *simplelru.LRU[string, *record[T]] // those that were written last come last
	dropped bool
}

type record[T any] struct {
	stored  []byte
	decoded bool
	value   *T // nil if the stored bytes are no T
}

// maxRecord bounds the size of a value, in bytes. Larger ones are left out.
const maxRecord = 256 << 10

// newRecords returns an empty set that holds at most most records. changed is called after
// each change.
func newRecords[T any](most int, changed func()) *Records[T] {
	return &Records[T]{most: most, changed: changed, kept: newest[*record[T]](most + 1)}
}

// newest returns a map that keeps the values that were added last.
func newest[V any](most int) *simplelru.LRU[string, V] {
	kept, _ := simplelru.NewLRU[string, V](most, nil) // only a bound that is not positive is an error
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

// Replace sets all records, given in the order in which they were written.
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

// All returns the values, those that were written last first, and whether some were left
// out. They must not be changed.
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
