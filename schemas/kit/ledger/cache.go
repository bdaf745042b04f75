package ledger

// cache remembers the values that were put last, at least half of limit and at
// most limit of them. It has two generations: when the young one is full, it
// becomes the old one, and what was in that is forgotten. That is coarser than
// a list of uses, and costs one map operation.
type cache[V any] struct {
	limit      int
	young, old map[string]V
}

func newCache[V any](limit int) *cache[V] {
	return &cache[V]{limit: limit, young: map[string]V{}}
}

func (c *cache[V]) get(key string) (V, bool) {
	if v, ok := c.young[key]; ok {
		return v, true
	}
	v, ok := c.old[key]
	return v, ok
}

func (c *cache[V]) put(key string, v V) {
	if len(c.young) >= c.limit/2 {
		c.old, c.young = c.young, make(map[string]V, c.limit/2)
	}
	c.young[key] = v
}
