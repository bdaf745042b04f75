package message

import (
	"hash/maphash"
	"sync"

	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// cacheFrom is the minimum size, in bytes, of parts that are remembered.
	cacheFrom = 512
	// cacheEntries is the maximum number of entries of a generation; one takes about
	// 100 bytes.
	cacheEntries = 16_384
)

// Cache remembers the readings of long texts. A session sends its system prompt and its
// results again with every request, and a lookup takes a fraction of the time of reading
// them. It is safe for concurrent use.
//
// Keys are two keyed hashes of a text, so that nobody can construct a text that is taken
// for another one.
type Cache struct {
	seeds [2]maphash.Seed
	mu    sync.Mutex
	young map[CacheKey]Reading
	old   map[CacheKey]Reading
}

// CacheKey identifies parts that were read in one way.
type CacheKey [2]uint64

// Reading is what was read in a text. A system prompt has only a digest.
type Reading struct {
	Digest, Class fingerprint.Digest
	// Failed and Ours are those of a ToolCall.
	Failed, Ours bool
	// Empty says that a result has nothing, and Long that it is more than an
	// acknowledgement.
	Empty, Long bool
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, young: map[CacheKey]Reading{}}
}

// Key returns the key of parts that are read in one of several ways. ok is false
// without a cache, and for short parts.
func (c *Cache) Key(way uint64, parts []Part) (k CacheKey, ok bool) {
	size := 0
	for i := range parts {
		size += len(parts[i].Value)
	}
	if c == nil || size < cacheFrom {
		return k, false
	}
	for n, seed := range c.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		maphash.WriteComparable(&h, way)
		for i := range parts {
			p := &parts[i]
			maphash.WriteComparable(&h, [3]int{int(p.Kind), len(p.Name), len(p.Value)})
			_, _ = h.Write(p.Name) // never fails
			_, _ = h.Write(p.Value)
		}
		k[n] = h.Sum64()
	}
	return k, true
}

// Get returns a reading.
func (c *Cache) Get(k CacheKey) (f Reading, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, known = c.young[k]; known {
		return f, true
	}
	if f, known = c.old[k]; known {
		c.put(k, f)
	}
	return f, known
}

// Set remembers a reading.
func (c *Cache) Set(k CacheKey, f Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(k, f)
}

// put adds an entry to the young generation, which becomes the old one when it is full.
func (c *Cache) put(k CacheKey, f Reading) {
	if len(c.young) >= cacheEntries {
		c.old, c.young = c.young, make(map[CacheKey]Reading, cacheEntries)
	}
	c.young[k] = f
}
