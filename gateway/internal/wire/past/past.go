// Package past remembers what readers of requests knew behind the messages of a list. Agents send
// their whole history with each request: the next one is read on from the end of what is
// the same, byte by byte.
//
// What is kept has offsets of the body and digests, and none of its text. It belongs to one caller.
// The package does not know what readers know.
package past

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

// Bounds say what is remembered; sizes are in bytes.
type Bounds struct {
	// Least is the size of the smallest body that is remembered. Smaller ones are read as fast.
	Least int
	// Begins is how much of a body tells which ones are compared with it.
	Begins int
	// Step is the least distance of two marks, but that of the last, and Share the least one as a share of
	// the rest of the body. Some clients change the newest messages later: they move a mark
	// for the provider's cache.
	Step, Share int
	// Marks is how many marks of bodies that begin alike are kept, and Bytes how much all take
	// together.
	Marks, Bytes int
}

// DefaultBounds are those of a gateway.
func DefaultBounds() Bounds {
	return Bounds{Least: 32 << 10, Begins: 8 << 10, Step: 16 << 10, Share: 4, Marks: 128, Bytes: 16 << 20}
}

const (
	// overhead is what a mark takes beside its state, in bytes.
	overhead = 256
	// mostNew is how many marks of one body are kept.
	mostNew = 4
)

// Book has what was read of the requests of all callers. It is safe for concurrent use.
type Book struct {
	bounds Bounds
	seed   uint64
	seeds  [2]maphash.Seed

	mu    sync.Mutex
	like  map[beginning][]*mark
	used  list.List // of marks, the last used first
	bytes int
}

// beginning tells bodies apart by their caller, how they are read, and how they begin.
type beginning struct {
	caller [2]uint64
	text   xxh3.Uint128
}

// mark is a place behind an element of a list.
type mark struct {
	of beginning
	// list is where the list begins, and end the place.
	list, end int
	// tail are the bytes before the place, and sum is the hash of all.
	tail uint64
	sum  xxh3.Uint128
	// state is what the reader knew, and size what the text before the place has.
	state []byte
	size  size.Size
	use   *list.Element
}

// NewBook returns an empty book.
func NewBook(b Bounds) *Book {
	return &Book{bounds: b, seed: rand.Uint64(), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, like: map[beginning][]*mark{}}
}

// Caller is a caller whose requests are read in one way.
type Caller struct {
	book  *Book
	texts []string
}

// Of returns the caller that texts tell from others. The nil Book remembers nothing.
func (b *Book) Of(texts ...string) Caller { return Caller{b, texts} }

// key returns the hashes of the caller's texts.
func (c Caller) key() (key [2]uint64) {
	for i, seed := range c.book.seeds {
		var sums []byte
		for _, text := range c.texts {
			sums = binary.LittleEndian.AppendUint64(sums, maphash.String(seed, text))
		}
		key[i] = maphash.Bytes(seed, sums)
	}
	return key
}

// Open returns the reading of a body, which must not change; nil for one that is too small.
func (c Caller) Open(body []byte) *Reading {
	if c.book == nil || len(body) < c.book.bounds.Least {
		return nil
	}
	return &Reading{
		book: c.book, body: body, of: beginning{c.key(), xxh3.Hash128Seed(body[:c.book.bounds.Begins], c.book.seed)}, hash: *xxh3.NewSeed(c.book.seed),
	}
}

// Reading is the reading of one body. The nil Reading remembers nothing.
type Reading struct {
	book *Book
	body []byte
	of   beginning
	list int
	// hash is that of the body up to hashed.
	hash   xxh3.Hasher
	hashed int
	// size is that of the body up to sized.
	size   size.Size
	sized  int
	marked int
	marks  []*mark
}

// Resume sets what the reader of a list knows to what it knew at the last place up to which the body
// is known, and returns the place; 0 if there is none.
func (r *Reading) Resume(list int, state func(*offsets.Coder)) (from int) {
	r.list, r.marked = list, max(list, r.book.bounds.Begins)
	var best *mark
	var hash xxh3.Hasher
	for _, m := range r.candidates() {
		r.hashTo(m.end)
		if r.hash.Sum128() == m.sum {
			best, hash = m, r.hash
		}
	}
	if best == nil {
		r.hash.Reset()
		r.hashed = 0
		return 0
	}
	r.hash, r.hashed, r.size, r.sized, r.marked = hash, best.end, best.size, best.end, best.end
	r.book.touch(best)
	offsets.Read(r.body, best.state, state)
	return best.end
}

func (r *Reading) hashTo(end int) {
	_, _ = r.hash.Write(r.body[r.hashed:end]) // it never fails
	r.hashed = end
}

// candidates returns the marks that may be of the body, in the order of their places.
func (r *Reading) candidates() (found []*mark) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	for _, m := range r.book.like[r.of] {
		if m.list == r.list && m.end <= len(r.body) && m.tail == tail(r.body[:m.end]) {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *mark) int { return a.end - b.end })
	return found
}

// tail returns the last bytes of a text.
func tail(text []byte) uint64 { return binary.LittleEndian.Uint64(text[len(text)-8:]) }

// Mark says that the reader is behind an element of the list, maybe the last one, and
// knows what state codes.
func (r *Reading) Mark(at int, last bool, state func(*offsets.Coder)) {
	b := &r.book.bounds
	if at <= r.marked || r.body[at-1] != '}' || !last && at-r.marked < max(b.Step, (len(r.body)-at)/b.Share) {
		return
	}
	r.marked = at
	data, ok := offsets.Write(r.body, state)
	if !ok {
		return
	}
	r.hashTo(at)
	r.size, r.sized = r.size.Plus(size.Of(r.body[r.sized:at])), at
	r.marks = append(r.marks, &mark{of: r.of, list: r.list, end: at, tail: tail(r.body[:at]), sum: r.hash.Sum128(), state: data, size: r.size})
}

// Close keeps the marks, and returns the size of the body.
func (r *Reading) Close() size.Size {
	for _, m := range r.marks[max(0, len(r.marks)-mostNew):] {
		r.book.keep(m)
	}
	r.marks = nil
	return r.size.Plus(size.Of(r.body[r.sized:]))
}

func (m *mark) bytes() int { return len(m.state) + overhead }

func (b *Book) touch(m *mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.use != nil {
		b.used.MoveToFront(m.use)
	}
}

// keep adds a mark, and forgets those that were not used for the longest.
func (b *Book) keep(m *mark) {
	m.state = slices.Clip(slices.Clone(m.state))
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.like[m.of] {
		if other.end == m.end && other.sum == m.sum {
			b.used.MoveToFront(other.use)
			return
		}
	}
	if like := b.like[m.of]; len(like) >= b.bounds.Marks {
		b.forget(like[0])
	}
	m.use = b.used.PushFront(m)
	b.like[m.of] = append(b.like[m.of], m)
	for b.bytes += m.bytes(); b.bytes > b.bounds.Bytes; {
		b.forget(b.used.Back().Value.(*mark))
	}
}

func (b *Book) forget(m *mark) {
	b.used.Remove(m.use)
	m.use = nil
	b.bytes -= m.bytes()
	if like := slices.DeleteFunc(b.like[m.of], func(other *mark) bool { return other == m }); len(like) > 0 {
		b.like[m.of] = like
	} else {
		delete(b.like, m.of)
	}
}
