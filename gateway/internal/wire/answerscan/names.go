package answerscan

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"sync"
)

// Names is a set of names of the values that a watcher wants.
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

// in reports whether an event contains one of the names in quotes, as a name or as a text. Names
// whose value is null do not count, because null is not reported. without is an event without the
// names: the beginning and the end that both events have in common are skipped.
func (n *Names) in(event, without []byte) bool {
	begin := sameBegin(event, without)
	end := len(event) - sameEnd(event[begin:], without[begin:])
	begin = max(0, begin-len(`":null,`))                   // what stands behind a name matters
	before := bytes.LastIndexByte(event[:begin], '"')      // the quote before
	for i := begin; i < len(event) && before <= end; i++ { // quotes stand too close for bytes.IndexByte
		if event[i] != '"' {
			continue
		}
		if before >= 0 && n.has(event[before+1:i]) && !null(event[:before], event[i+1:]) {
			return true
		}
		before = i
	}
	return false
}

// sameBegin returns how many bytes two texts have in common at their beginning.
func sameBegin(a, b []byte) (n int) {
	const word = 8
	for most := min(len(a), len(b)); n < most; n++ {
		if n+word <= most {
			if differ := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differ != 0 {
				return n + bits.TrailingZeros64(differ)/8
			}
			n += word - 1
		} else if a[n] != b[n] {
			return n
		}
	}
	return n
}

// sameEnd returns how many bytes two texts have in common at their end.
func sameEnd(a, b []byte) (n int) {
	const word = 8
	for most := min(len(a), len(b)); n < most; n++ {
		i, j := len(a)-n, len(b)-n
		if n+word <= most {
			if differ := binary.LittleEndian.Uint64(a[i-word:]) ^ binary.LittleEndian.Uint64(b[j-word:]); differ != 0 {
				return n + bits.LeadingZeros64(differ)/8
			}
			n += word - 1
		} else if a[i-1] != b[j-1] {
			return n
		}
	}
	return n
}

// unions caches the unions of the names of watchers. There are few.
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

// null reports whether a quoted name is the name of a member whose value is null, given the text
// before and behind the quotes.
func null(before, behind []byte) bool {
	rest, is := bytes.CutPrefix(behind, []byte(":null"))
	return is && len(rest) > 0 && (rest[0] == ',' || rest[0] == '}') && (bytes.HasSuffix(before, []byte(",")) || bytes.HasSuffix(before, []byte("{")))
}
