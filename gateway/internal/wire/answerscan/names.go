package answerscan

import (
	"bytes"
	"maps"
	"slices"
	"sync"
)

// Names are names of values by which a watcher finds what it wants.
type Names struct {
	all map[string]bool
	// lengths has a bit for the length of each name, by the byte with which it begins.
	lengths [256]uint64
}

// NamesOf returns a set of names of 1 to 63 bytes.
func NamesOf(names ...string) *Names {
	n := &Names{all: make(map[string]bool, len(names))}
	for _, name := range names {
		n.all[name] = true
		n.lengths[name[0]] |= 1 << len(name)
	}
	return n
}

// has reports whether a text is one of the names.
func (n *Names) has(text []byte) bool {
	return len(text) > 0 && n.lengths[text[0]]>>len(text)&1 != 0 && n.all[string(text)]
}

// in reports whether one of the names stands in an event in quotes, as a name or as a text.
// Names of null do not count, which is reported to nobody.
func (n *Names) in(event []byte) bool {
	before := -1              // the quote before
	for i, c := range event { // quotes stand too close for bytes.IndexByte
		if c != '"' {
			continue
		}
		if before >= 0 && n.has(event[before+1:i]) && !null(event[:before], event[i+1:]) {
			return true
		}
		before = i
	}
	return false
}

// unions are the names of sets of watchers, by the names of each. They are few.
var unions sync.Map

// union returns the names of all watchers; nil if one wants all values.
func union(watchers []watching) *Names {
	var key [4]*Names
	for i := range watchers {
		if i == len(key) || watchers[i].names == nil {
			return nil
		}
		key[i] = watchers[i].names
	}
	known, ok := unions.Load(key)
	if !ok {
		var all []string
		for _, names := range key[:len(watchers)] {
			all = slices.AppendSeq(all, maps.Keys(names.all))
		}
		known, _ = unions.LoadOrStore(key, NamesOf(all...))
	}
	return known.(*Names)
}

// null reports whether a name is that of a member whose value is null, by what stands before
// its first quote and behind its last.
func null(before, behind []byte) bool {
	rest, is := bytes.CutPrefix(behind, []byte(":null"))
	return is && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}') && (bytes.HasSuffix(before, []byte(",")) || bytes.HasSuffix(before, []byte("{")))
}
