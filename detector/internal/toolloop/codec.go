package toolloop

import "encoding/binary"

// codec appends the elements of a stored state to buf, or reads them from buf. After a fault,
// bad is set and it reads zeros.
type codec struct {
	buf          []byte
	writing, bad bool
}

// section writes a tag, the length of v in two bytes, and v. No part of a State within
// its bounds is longer.
func section[T interface{ code(c *codec) }](c *codec, tag byte, v T) {
	c.buf = append(c.buf, tag, 0, 0)
	start := len(c.buf)
	v.code(c)
	binary.BigEndian.PutUint16(c.buf[start-2:], uint16(len(c.buf)-start)) //nolint:gosec // see above
}

// take reads n bytes.
func (c *codec) take(n uint64) []byte {
	if c.bad || n > uint64(len(c.buf)) {
		c.bad, c.buf = true, nil
		return nil
	}
	out := c.buf[:n]
	c.buf = c.buf[n:]
	return out
}

func (c *codec) key(k *uint64) {
	if c.writing {
		c.buf = binary.BigEndian.AppendUint64(c.buf, *k)
	} else if b := c.take(8); b != nil {
		*k = binary.BigEndian.Uint64(b)
	}
}

// signed writes n, or returns the number that it reads.
func (c *codec) signed(n int64) int64 {
	if c.writing {
		c.buf = binary.AppendVarint(c.buf, n)
		return n
	}
	read, size := binary.Varint(c.buf)
	c.read(size)
	return read
}

func (c *codec) ints(list ...*int) {
	for _, p := range list {
		if n := c.signed(int64(*p)); !c.writing {
			*p = int(n)
		}
	}
}

// times writes or reads times in milliseconds.
func (c *codec) times(list ...*int64) {
	for _, p := range list {
		*p = c.signed(*p)
	}
}

// number writes n, or returns the number that it reads.
func (c *codec) number(n uint64) uint64 {
	if c.writing {
		c.buf = binary.AppendUvarint(c.buf, n)
		return n
	}
	read, size := binary.Uvarint(c.buf)
	c.read(size)
	return read
}

// read takes the bytes of a number, whose size is not positive if it is none.
func (c *codec) read(size int) {
	if c.take(uint64(max(size, 0))); size <= 0 { //nolint:gosec // not negative
		c.bad = true
	}
}

func (c *codec) numbers(list ...*uint32) {
	for _, p := range list {
		switch n := c.number(uint64(*p)); {
		case c.writing: // others may read the value meanwhile
		case n >= 1<<32:
			c.bad = true
			return
		default:
			*p = uint32(n)
		}
	}
}

// text writes a text, or reads one of at most most bytes.
func (c *codec) text(s *string, most uint64) {
	switch n := c.number(uint64(len(*s))); {
	case c.writing:
		c.buf = append(c.buf, *s...)
	case n > most:
		c.bad = true
	default:
		*s = string(c.take(n))
	}
}

func (c *codec) keys(list *[]uint64) {
	n := c.number(uint64(len(*list)))
	if !c.writing {
		if n > uint64(len(c.buf))/8 {
			c.bad = true
			return
		}
		*list = make([]uint64, n)
	}
	for i := range *list {
		c.key(&(*list)[i])
	}
}

// bools writes or reads up to eight flags as one byte.
func (c *codec) bools(list ...*bool) {
	if c.writing {
		var b byte
		for i, p := range list {
			if *p {
				b |= 1 << i
			}
		}
		c.buf = append(c.buf, b)
	} else if b := c.take(1); len(b) == 1 {
		for i, p := range list {
			*p = b[0]&(1<<i) != 0
		}
	}
}
