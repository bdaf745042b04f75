package ledger

// cache keeps the values that were put last: between half of limit and limit bytes of stored
// forms and keys. It has two generations: when the young one is full, it replaces the old
// one. That is coarser than LRU, and takes only two map operations.
type cache[V any] struct {
	limit, used int // bytes; used by the young ones
	young, old  map[string]sized[V]
}

type sized[V any] struct {
	value V
	size  int
}

func newCache[V any](limit int) *cache[V] {
	return &cache[V]{limit: limit, young: map[string]sized[V]{}}
}

func (c *cache[V]) get(key string) (V, bool) {
	if v, ok := c.young[key]; ok {
		return v.value, true
	}
	v, ok := c.old[key]
	return v.value, ok
}

// put adds a value whose stored form has size bytes.
func (c *cache[V]) put(key string, v V, size int) {
	size += len(key)
	if c.used += size - c.young[key].size; c.used > c.limit/2 {
		c.old, c.young, c.used = c.young, make(map[string]sized[V], len(c.young)), size
	}
	c.young[key] = sized[V]{v, size}
}

// drop removes a value. Its bytes count until the generation ends.
func (c *cache[V]) drop(key string) {
	delete(c.young, key)
	delete(c.old, key)
}
