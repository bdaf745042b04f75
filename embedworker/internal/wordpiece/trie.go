package wordpiece

import "math/bits"

// trie finds the longest vocabulary entry that a word begins with in one pass
// over its bytes. Its edges live in one open-addressed table, keyed by node
// and byte, so that a 30 000 word vocabulary takes 2 MB and a step one probe.
type trie struct {
	edges []edge
	shift uint
	ids   []int32 // id of the entry that ends at a node, or none
}

type edge struct {
	key  uint32 // node<<8 | byte
	next uint32 // 0 marks a free slot: no edge leads to the root
}

const (
	none     int32 = -1
	maxNodes       = 1 << 24 // a key holds 24 bits of node
)

// newTrie makes an empty trie for entries of at most size bytes in all.
func newTrie(size int) *trie {
	width := max(bits.Len(uint(2*size+1)), 4)
	return &trie{edges: make([]edge, 1<<width), shift: uint(32 - width), ids: []int32{none}}
}

func (t *trie) slot(key uint32) uint32 { return (key * 2654435769) >> t.shift }

// step follows one byte from a node; ok is false where nothing follows.
func (t *trie) step(node uint32, c byte) (next uint32, ok bool) {
	key := node<<8 | uint32(c)
	mask := uint32(len(t.edges) - 1)
	for i := t.slot(key); ; i = (i + 1) & mask {
		e := t.edges[i]
		if e.next == 0 {
			return 0, false
		}
		if e.key == key {
			return e.next, true
		}
	}
}

// add enters a word, and the path to it even where id is none; it returns the
// node at which the word ends.
func (t *trie) add(word string, id int32) uint32 {
	node := uint32(0)
	for i := range len(word) {
		next, ok := t.step(node, word[i])
		if !ok {
			next = t.grow(node, word[i])
		}
		node = next
	}
	if id != none {
		t.ids[node] = id
	}
	return node
}

func (t *trie) grow(node uint32, c byte) uint32 {
	key := node<<8 | uint32(c)
	mask := uint32(len(t.edges) - 1)
	i := t.slot(key)
	for t.edges[i].next != 0 {
		i = (i + 1) & mask
	}
	next := uint32(len(t.ids))
	t.edges[i] = edge{key: key, next: next}
	t.ids = append(t.ids, none)
	return next
}

// longest returns the id and the length of the longest entry that text begins
// with, walking from a node; the id is none if there is no such entry.
func (t *trie) longest(node uint32, text []byte) (id int32, length int) {
	id = none
	for i, c := range text {
		next, ok := t.step(node, c)
		if !ok {
			break
		}
		node = next
		if t.ids[node] != none {
			id, length = t.ids[node], i+1
		}
	}
	return id, length
}
