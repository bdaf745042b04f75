package message

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// cacheFrom is the minimum size, in bytes, of parts that are remembered.
	cacheFrom = 192
	// cacheEntries is the maximum number of entries of a generation of each kind; one
	// takes about 150 bytes, of exchanges 300, so that all take at most 20 MB.
	cacheEntries = 16_384
)

// maxName is the maximum length, in bytes, of the names in an entry. What has longer ones
// is read each time.
const maxName = 256

// Cache remembers the readings of long messages and results. A session sends its history
// again with every request, and a lookup takes a fraction of the time of reading it. It is
// safe for concurrent use.
//
// Keys are two keyed hashes of a text, so that nobody can construct a text that is taken
// for another one.
type Cache struct {
	seeds     [2]maphash.Seed
	readings  generations[Reading]
	calls     generations[ToolCall]
	exchanges generations[Exchange]
}

// CacheKey identifies parts that were read in one way.
type CacheKey [2]uint64

// Ways in which parts are read, in the keys of a cache. Results are read in as many
// further ways as there are rules for them.
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

// TextWay is added to the numbers of rules for calls that were read in a text.
const TextWay uint64 = 1 << 62

// Reading is the content read from a message or a result.
type Reading struct {
	// Digest is that of a result, of a human's words, or the strict one of a message, and
	// Class that of an error, or of the text of a message.
	Digest, Class fingerprint.Digest
	// Human says that a message has words of a human, Summary that these are one of an
	// older history, and Output that they look like the output of a program.
	Human, Summary, Output bool
	// Begin is where an agent's scratchpad begins in a human's words; 0 for none.
	Begin int
	// Failed and Ours are those of a ToolCall.
	Failed, Ours bool
	// Empty says that a result has nothing, Long that it is more than an acknowledgement,
	// and Shown that it has a picture or the like.
	Empty, Long, Shown bool
}

// Exchange is the content read from a message of an agent that acts in text, and from its
// answer.
type Exchange struct {
	// Form, Mark and Tool are those of the action; Form is 0 for none.
	Form       uint8
	Mark, Tool string
	// Call is the call of the action, or of the whole message without one. It has no result.
	Call ToolCall
	// Human and Answer are the digests of the answer as words of a human and as a result.
	Human, Answer fingerprint.Digest
	// Printed says that the answer looks like the output of a program.
	Printed bool
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{
		seeds:    [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		readings: newGenerations[Reading](), calls: newGenerations[ToolCall](), exchanges: newGenerations[Exchange](),
	}
}

// Sums identifies parts, in whatever way they are read, and remembers the hash of each in the part. It
// is zero without a cache, and if a part is a call that the body only refers to.
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

// flags returns what a part says of itself and its digests depend on.
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
	if c == nil || size < cacheFrom && way != ComplaintWay {
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

// generations are the latest entries: a young generation becomes the old one when it is
// full.
type generations[V any] struct {
	mu         sync.Mutex
	young, old map[CacheKey]V
}

func newGenerations[V any]() generations[V] { return generations[V]{young: map[CacheKey]V{}} }

// get returns an entry. An old one that is used becomes young.
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
	if len(g.young) >= cacheEntries {
		g.old, g.young = g.young, make(map[CacheKey]V, cacheEntries)
	}
	g.young[k] = v
}
