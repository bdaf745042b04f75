package answerscan

const (
	// MaxDepth is how deep a value may stand to be reported.
	MaxDepth = 3
	// maxText is the length of the longest string that is reported, in bytes.
	maxText = 192
	// maxName is the length of the longest name that is kept, in bytes.
	maxName = 24
)

// Parts of a path that are no names. JSON has neither byte in a name.
const (
	// Element stands for an element of a list.
	Element = "\x00"
	// Any stands for any name or element.
	Any = "\x01"
)

// Place is the path of a value in a document: the names and lists above it.
type Place struct {
	// Stream says that the document is an event of a stream.
	Stream bool

	depth int
	names [MaxDepth + 1]name // by depth; the document itself has depth 0
}

// name is the name of a value. One that does not fit is empty.
type name struct {
	text   [maxName]byte
	length int
}

// Depth is the number of names and lists above the value; 0 for a document itself.
func (p *Place) Depth() int { return p.depth }

// Name is the value's own name, or Element.
func (p *Place) Name() []byte {
	n := &p.names[p.depth]
	return n.text[:n.length]
}

// Is reports whether the value is at a path of names, Element and Any.
func (p *Place) Is(path ...string) bool {
	if p.depth != len(path) {
		return false
	}
	for i, want := range path {
		if n := &p.names[i+1]; want != Any && string(n.text[:n.length]) != want {
			return false
		}
	}
	return true
}

// set names the values at the current depth.
func (p *Place) set(text []byte) {
	if p.depth > 0 && p.depth <= MaxDepth {
		p.names[p.depth] = name{}
		if len(text) <= maxName {
			p.names[p.depth].length = copy(p.names[p.depth].text[:], text)
		}
	}
}
