// Package offsets serializes values that hold slices of a text, without the text: it writes
// offsets, and reads them as slices of another text with the same beginning.
//
// One function codes a value in both directions, so that writing and reading can't differ.
// The package does not know what the values mean.
package offsets

import "encoding/binary"

// Coder writes values, or reads them.
type Coder struct {
	text   []byte
	data   []byte
	reads  bool
	failed bool
}

// Write returns the values that code passes to the Coder, whose slices are of text. ok is
// false if one of them can't be written.
func Write(text []byte, code func(*Coder)) (data []byte, ok bool) {
	c := Coder{text: text, data: make([]byte, 0, initialSize)}
	code(&c)
	return c.data, !c.failed
}

// initialSize is enough for most values, in bytes.
const initialSize = 8 << 10

// Read sets the values that code passes to the Coder to those that Write returned as data.
// The text must have the same beginning as then.
func Read(text, data []byte, code func(*Coder)) {
	code(&Coder{text: text, data: data, reads: true})
}

// Fail makes Write report that a value can't be written.
func (c *Coder) Fail() { c.failed = true }

// Reads reports whether the Coder reads values, and does not write them.
func (c *Coder) Reads() bool { return c.reads }

func (c *Coder) number(n uint64) uint64 {
	if !c.reads {
		c.data = binary.AppendUvarint(c.data, n)
		return n
	}
	n, size := binary.Uvarint(c.data)
	c.data = c.data[size:]
	return n
}

// Int codes a number that is not negative.
func (c *Coder) Int(n *int) { *n = int(c.number(uint64(*n))) }

// Byte codes a small number.
func Byte[T ~uint8](c *Coder, n *T) { *n = T(c.number(uint64(*n))) }

// Uint64 codes a number in eight bytes, such as a hash.
func (c *Coder) Uint64(n *uint64) {
	if !c.reads {
		c.data = binary.LittleEndian.AppendUint64(c.data, *n)
		return
	}
	*n, c.data = binary.LittleEndian.Uint64(c.data), c.data[8:]
}

// Flags codes up to eight booleans as one number.
func (c *Coder) Flags(flags ...*bool) {
	var all uint64
	for i, f := range flags {
		if *f {
			all |= 1 << i
		}
	}
	all = c.number(all)
	for i, f := range flags {
		*f = all&(1<<i) != 0
	}
}

// Sum codes a digest. The zero digest takes one byte.
func (c *Coder) Sum(sum *[16]byte) {
	some := *sum != [16]byte{}
	switch c.Flags(&some); {
	case !some:
		*sum = [16]byte{}
	case c.reads:
		copy(sum[:], c.data)
		c.data = c.data[len(sum):]
	default:
		c.data = append(c.data, sum[:]...)
	}
}

// A slice of bytes is written as none, as own with the bytes, or as inText plus an offset.
const (
	none = iota
	own
	inText
)

// Bytes codes a slice of the text. It copies a slice of anything else.
func (c *Coder) Bytes(b *[]byte) {
	how := uint64(none)
	if !c.reads && *b != nil {
		how = own
		if at, ok := c.offset(*b); ok {
			how = inText + uint64(at)
		}
	}
	if how = c.number(how); how == none {
		*b = nil
		return
	}
	size := len(*b)
	c.Int(&size)
	switch {
	case how >= inText:
		at := int(how - inText)
		*b = c.text[at : at+size]
	case c.reads:
		*b, c.data = append([]byte{}, c.data[:size]...), c.data[size:]
	default:
		c.data = append(c.data, *b...)
	}
}

// offset returns the offset of a slice in the text; false if it is elsewhere.
func (c *Coder) offset(b []byte) (at int, ok bool) {
	at = cap(c.text) - cap(b)
	if cap(b) == 0 || at < 0 || at+len(b) > len(c.text) || at >= len(c.text) {
		return 0, false
	}
	return at, &c.text[at] == &b[:1][0]
}

// List codes a list. An empty list is read as nil.
func List[T any](c *Coder, list *[]T, element func(*T)) {
	n := len(*list)
	if c.Int(&n); c.reads {
		if *list = nil; n > 0 {
			*list = make([]T, n)
		}
	}
	for i := range *list {
		element(&(*list)[i])
	}
}
