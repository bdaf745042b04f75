// Package prefixcache remembers the state of readers at checkpoints within the lists of requests.
// Agents send their whole history with each request: the next one that has the same bytes up to a
// checkpoint is read from there.
//
// Checkpoints hold digests and offsets into the body, and none of its text. They are never shared
// between scopes. The package does not know what the readers' state means.
package prefixcache

import (
	"container/list"
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/unloop/unloop/gateway/internal/text/offsets"
	"github.com/unloop/unloop/gateway/internal/wire/size"
)

// Limits bound what a cache keeps; sizes are in bytes.
type Limits struct {
	// MinSize is the size of the smallest body with checkpoints. Smaller ones are read as fast.
	MinSize int
	// KeySize is the size of the beginning of a body by which its checkpoints are looked up.
	KeySize int
	// Checkpoints of a body are at least MinStep bytes and 1/StepDivisor of the rest of the body
	// apart, except the last one. Some clients change the newest messages later, because they move
	// a mark for the provider's cache.
	MinStep, StepDivisor int
	// PerKey is the maximum number of checkpoints of bodies that begin alike, and Total the
	// maximum size of all checkpoints.
	PerKey, Total int
}

// DefaultLimits returns the limits of a gateway.
func DefaultLimits() Limits {
	return Limits{MinSize: 32 << 10, KeySize: 8 << 10, MinStep: 16 << 10, StepDivisor: 4, PerKey: 128, Total: 16 << 20}
}

const (
	// overhead is the approximate size of a checkpoint without its state, in bytes.
	overhead = 256
	// maxNew is the maximum number of checkpoints that one body adds.
	maxNew = 4
)

// Cache holds the checkpoints of all scopes. It evicts the least recently used ones, and is safe for
// concurrent use.
type Cache struct {
	limits Limits
	seed   uint64
	seeds  [2]maphash.Seed

	mu    sync.Mutex
	byKey map[key][]*checkpoint
	lru   list.List // of *checkpoint, the most recently used first
	bytes int
}

// key identifies bodies of one scope that begin alike.
type key struct {
	scope [2]uint64
	begin xxh3.Uint128
}

// checkpoint is a position behind an element of a list.
type checkpoint struct {
	key key
	// list is the offset of the list, and end that of the position.
	list, end int
	// tail holds the last bytes before the position, and sum is the hash of all bytes before it.
	tail uint64
	sum  xxh3.Uint128
	// state is the coded state of the reader, and size the size of the text before the position.
	state []byte
	size  size.Size
	use   *list.Element // nil once evicted
}

// New returns an empty cache.
func New(l Limits) *Cache {
	return &Cache{limits: l, seed: rand.Uint64(), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, byKey: map[key][]*checkpoint{}}
}

// Scope is a part of a cache: the requests of one caller that are read in one way. The zero Scope
// keeps nothing.
type Scope struct {
	cache *Cache
	names []string
}

// Scope returns the scope with the given names.
func (c *Cache) Scope(names ...string) Scope { return Scope{c, names} }

// hash returns the hashes of the scope's names.
func (s Scope) hash() (sum [2]uint64) {
	for i, seed := range s.cache.seeds {
		var sums []byte
		for _, name := range s.names {
			sums = binary.LittleEndian.AppendUint64(sums, maphash.String(seed, name))
		}
		sum[i] = maphash.Bytes(seed, sums)
	}
	return sum
}

// Open begins to read a body, which must not change. It returns nil for one that is too small.
func (s Scope) Open(body []byte) *Progress {
	c := s.cache
	if c == nil || len(body) < c.limits.MinSize {
		return nil
	}
	return &Progress{cache: c, body: body, key: key{s.hash(), xxh3.Hash128Seed(body[:c.limits.KeySize], c.seed)}, hash: *xxh3.NewSeed(c.seed)}
}

// Progress is how far one body has been read.
type Progress struct {
	cache *Cache
	body  []byte
	key   key
	list  int
	// hash covers the body up to hashed.
	hash   xxh3.Hasher
	hashed int
	// size is the size of the body up to sized.
	size  size.Size
	sized int
	// last is the offset of the last checkpoint, and added are the new ones.
	last  int
	added []*checkpoint
}

// Resume restores the state of the reader of a list at the last checkpoint that fits the body, and
// returns the checkpoint's offset; 0 if there is none.
func (p *Progress) Resume(list int, state func(*offsets.Coder)) (from int) {
	p.list, p.last = list, max(list, p.cache.limits.KeySize)
	var best *checkpoint
	var hash xxh3.Hasher
	for _, c := range p.candidates() {
		p.hashTo(c.end)
		if p.hash.Sum128() == c.sum {
			best, hash = c, p.hash
		}
	}
	if best == nil {
		p.hash.Reset()
		p.hashed = 0
		return 0
	}
	p.hash, p.hashed, p.size, p.sized, p.last = hash, best.end, best.size, best.end, best.end
	p.cache.touch(best)
	offsets.Read(p.body, best.state, state)
	return best.end
}

func (p *Progress) hashTo(end int) {
	_, _ = p.hash.Write(p.body[p.hashed:end]) // it never fails
	p.hashed = end
}

// candidates returns the checkpoints that may fit the body, ordered by their offsets.
func (p *Progress) candidates() (found []*checkpoint) {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	for _, c := range p.cache.byKey[p.key] {
		if c.list == p.list && c.end <= len(p.body) && c.tail == tail(p.body[:c.end]) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *checkpoint) int { return a.end - b.end })
	return found
}

// tail returns the last bytes of a text.
func tail(text []byte) uint64 { return binary.LittleEndian.Uint64(text[len(text)-8:]) }

// Checkpoint adds a checkpoint behind an element of the list, unless the one before is too close.
// last says that the element is the last one.
func (p *Progress) Checkpoint(at int, last bool, state func(*offsets.Coder)) {
	l := &p.cache.limits
	if at <= p.last || p.body[at-1] != '}' || !last && at-p.last < max(l.MinStep, (len(p.body)-at)/l.StepDivisor) {
		return
	}
	p.last = at
	data, ok := offsets.Write(p.body, state)
	if !ok {
		return
	}
	p.hashTo(at)
	p.size, p.sized = p.size.Plus(size.Of(p.body[p.sized:at])), at
	p.added = append(p.added, &checkpoint{key: p.key, list: p.list, end: at, tail: tail(p.body[:at]), sum: p.hash.Sum128(), state: data, size: p.size})
}

// Close stores the new checkpoints, and returns the size of the body.
func (p *Progress) Close() size.Size {
	for _, c := range p.added[max(0, len(p.added)-maxNew):] {
		p.cache.add(c)
	}
	p.added = nil
	return p.size.Plus(size.Of(p.body[p.sized:]))
}

func (c *checkpoint) bytes() int { return len(c.state) + overhead }

func (c *Cache) touch(used *checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used.use != nil {
		c.lru.MoveToFront(used.use)
	}
}

// add adds a checkpoint, and evicts others if there are too many.
func (c *Cache) add(added *checkpoint) {
	added.state = slices.Clip(slices.Clone(added.state))
	c.mu.Lock()
	defer c.mu.Unlock()
	alike := c.byKey[added.key]
	for _, other := range alike {
		if other.end == added.end && other.sum == added.sum {
			c.lru.MoveToFront(other.use)
			return
		}
	}
	if len(alike) >= c.limits.PerKey {
		c.evict(alike[0])
	}
	added.use = c.lru.PushFront(added)
	c.byKey[added.key] = append(c.byKey[added.key], added)
	for c.bytes += added.bytes(); c.bytes > c.limits.Total; {
		c.evict(c.lru.Back().Value.(*checkpoint))
	}
}

func (c *Cache) evict(old *checkpoint) {
	c.lru.Remove(old.use)
	old.use = nil
	c.bytes -= old.bytes()
	if left := slices.DeleteFunc(c.byKey[old.key], func(other *checkpoint) bool { return other == old }); len(left) > 0 {
		c.byKey[old.key] = left
	} else {
		delete(c.byKey, old.key)
	}
}
