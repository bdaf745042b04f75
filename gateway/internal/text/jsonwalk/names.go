package jsonwalk

import "bytes"

// names holds the names of the members of all open objects, to detect duplicates.
type names struct {
	stack [][]byte
	buf   [maxLinear][]byte // the first backing array of stack
	// large holds the names of open objects with more than maxLinear members, by the index
	// in stack at which the object begins.
	large map[int]map[string]struct{}
}

// maxLinear is the maximum number of names for a linear search.
const maxLinear = 16

// open begins an object. It returns the object's index for add and close.
func (n *names) open() (object int) {
	if n.stack == nil {
		n.stack = n.buf[:0]
	}
	return len(n.stack)
}

// add reports whether a name is new to the object.
func (n *names) add(object int, name []byte) bool {
	if len(n.stack)-object < maxLinear {
		for _, other := range n.stack[object:] {
			if bytes.Equal(other, name) {
				return false
			}
		}
		n.stack = append(n.stack, name)
		return true
	}
	set := n.large[object]
	if set == nil {
		set = n.toSet(object)
	}
	if _, known := set[string(name)]; known {
		return false
	}
	set[string(name)] = struct{}{}
	return true
}

// toSet moves an object's names to a set.
func (n *names) toSet(object int) map[string]struct{} {
	set := make(map[string]struct{}, 4*maxLinear)
	for _, name := range n.stack[object:] {
		set[string(name)] = struct{}{}
	}
	if n.large == nil {
		n.large = map[int]map[string]struct{}{}
	}
	n.large[object] = set
	return set
}

// close ends an object.
func (n *names) close(object int) {
	if len(n.stack)-object >= maxLinear {
		delete(n.large, object)
	}
	n.stack = n.stack[:object]
}
