package message

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// minCached is the minimum size of cached parts, in bytes.
	minCached = 192
	// maxEntries is the maximum number of entries of each kind in a generation. An exchange
	// takes about 300 bytes and the others 150, so that all take at most 20 MB.
	maxEntries = 16_384
	// maxName is the maximum length of the names in an entry, in bytes. Calls with longer ones
	// are not cached.
	maxName = 256
)

// Cache holds what was read from long messages and results. A session sends its history again
// with every request, and a lookup takes a fraction of the time of reading it. A Cache is safe
// for concurrent use.
//
// Keys are two keyed hashes of a text, so that nobody can construct a collision.
type Cache struct {
	seeds     [2]maphash.Seed
	readings  generations[Reading]
	calls     generations[ToolCall]
	exchanges generations[Exchange]
}

// CacheKey identifies parts, or parts and the way in which they are read.
type CacheKey [2]uint64

// Ways in which parts are read. For results and calls, the way is the number of the rules.
const (
	messageWay    uint64 = 1<<63 + iota // and the role
	_                                   // of Assistant
	_                                   // of System
	_                                   // of Tool
	HumanWay                            // the words of a human
	OpeningWay                          // the first words of a human
	BeginningWay                        // the same without clocks and ids
	callWay                             // a call without its result
	exchangeWay                         // an exchange of an agent that acts in text
	FirstWay                            // the words before the agent's first message
	InstructedWay                       // instructions and a mark that they may contain
	otherWay                            // a picture or the like
	HeardWay                            // the words of a human without numbers
	ComplaintWay                        // whether they are a complaint
)

// TextWay is added to the number of the rules for calls that are read from a text.
const TextWay uint64 = 1 << 62

// Reading is the content read from a message or a result.
type Reading struct {
	// Digest is the digest of a result or of a human's words, or the strict digest of a message.
	// Class is the class of an error, or the text digest of a message.
	Digest, Class fingerprint.Digest
	// Human reports whether a human wrote something in a message, Summary whether that is a
	// summary of an older history, and Output whether it looks like the output of a program.
	Human, Summary, Output bool
	// Begin is the offset of an agent's scratchpad in a human's words; 0 for none.
	Begin int
	// Failed, Ours, Long and Shown are the fields of ToolCall. Empty reports whether a result
	// has no content.
	Failed, Ours, Long, Shown, Empty bool
}

// Exchange is the content read from a message of an agent that acts in text, and from the answer.
type Exchange struct {
	// Form, Mark and Tool describe the action in the message; Form is 0 for none.
	Form       uint8
	Mark, Tool string
	// Call is the action as a call without its result. Without an action it is the whole message.
	Call ToolCall
	// Human and Answer are the digests of the answer, read as a human's words and as a result.
	Human, Answer fingerprint.Digest
	// Printed reports whether the answer looks like the output of a program.
	Printed bool
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{
		seeds:    [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		readings: newGenerations[Reading](), calls: newGenerations[ToolCall](), exchanges: newGenerations[Exchange](),
	}
}

// Sums returns the key of parts for all ways in which they are read, and keeps the hash of each part in
// it. It returns zero without a cache, and for calls that the body only refers to.
func (c *Cache) Sums(lists ...[]Part) (sums CacheKey) {
	if c == nil {
		return sums
	}
	var room [512]byte
	text := room[:0]
	for _, parts := range lists {
		for i := range parts {
			p := &parts[i]
			if p.Known != nil {
				return sums
			}
			c.hash(p)
			text = append(text, byte(p.Kind), flags(p))
			text = binary.LittleEndian.AppendUint64(text, p.sum[0])
			text = binary.LittleEndian.AppendUint64(text, p.sum[1])
		}
	}
	for n, seed := range c.seeds {
		sums[n] = maphash.Bytes(seed, text)
	}
	return sums
}

// hash sets the sum of a part, unless it is set.
func (c *Cache) hash(p *Part) {
	if c == nil || p.sum != (CacheKey{}) {
		return
	}
	for n, seed := range c.seeds {
		p.sum[n] = pair(seed, maphash.Bytes(seed, p.Name), maphash.Bytes(seed, p.Value))
	}
}

// key returns the key of parts that are read in one of several ways, given their sums.
func (c *Cache) key(way uint64, sums CacheKey) (k CacheKey) {
	for n, seed := range c.seeds {
		k[n] = pair(seed, way, sums[n])
	}
	return k
}

// pair returns the hash of two numbers.
func pair(seed maphash.Seed, a, b uint64) uint64 {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:], a)
	binary.LittleEndian.PutUint64(both[8:], b)
	return maphash.Bytes(seed, both[:])
}

// flags returns the flags of a part on which its digests depend.
func flags(p *Part) (f byte) {
	if p.Inside {
		f |= 1
	}
	if p.Failed {
		f |= 2
	}
	if p.Fine {
		f |= 4
	}
	return f
}

// Read returns the reading of parts in one of several ways: the cached one, or else the result of read,
// which it caches. Short parts are always read, unless that takes long.
func (c *Cache) Read(way uint64, parts []Part, read func() Reading) Reading {
	size := 0
	for i := range parts {
		size += len(parts[i].Value)
	}
	if c == nil || size < minCached && way != ComplaintWay {
		return read()
	}
	return lookup(c, &c.readings, way, c.Sums(parts), read, func(Reading) bool { return true })
}

// Call is Read for a call and its result, by their sums.
func (c *Cache) Call(way uint64, sums CacheKey, read func() ToolCall) ToolCall {
	if c == nil {
		return read()
	}
	return lookup(c, &c.calls, way, sums, read, func(call ToolCall) bool { return len(call.Tool) <= maxName })
}

// Exchange is Read for an exchange, by its sums.
func (c *Cache) Exchange(sums CacheKey, read func() Exchange) Exchange {
	if c == nil {
		return read()
	}
	return lookup(c, &c.exchanges, exchangeWay, sums, read, func(x Exchange) bool { return len(x.Tool)+len(x.Mark) <= maxName })
}

// lookup returns the entry for parts with the given sums, or else the result of read, which it adds if it
// is small.
func lookup[V any](c *Cache, in *generations[V], way uint64, sums CacheKey, read func() V, small func(V) bool) V {
	if sums == (CacheKey{}) {
		return read()
	}
	key := c.key(way, sums)
	v, known := in.get(key)
	if !known {
		if v = read(); small(v) {
			in.set(key, v)
		}
	}
	return v
}

// generations holds the entries that were used last. When the young generation is full, it
// replaces the old one.
type generations[V any] struct {
	mu         sync.Mutex
	young, old map[CacheKey]V
}

func newGenerations[V any]() generations[V] { return generations[V]{young: map[CacheKey]V{}} }

// get returns an entry, and moves it to the young generation.
func (g *generations[V]) get(k CacheKey) (v V, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v, known = g.young[k]; known {
		return v, true
	}
	if v, known = g.old[k]; known {
		g.put(k, v)
	}
	return v, known
}

func (g *generations[V]) set(k CacheKey, v V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(k, v)
}

func (g *generations[V]) put(k CacheKey, v V) {
	if len(g.young) >= maxEntries {
		g.old, g.young = g.young, make(map[CacheKey]V, maxEntries)
	}
	g.young[k] = v
}
