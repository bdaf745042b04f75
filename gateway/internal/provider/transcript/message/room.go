package message

import "sync"

const (
	// roomParts is how many parts a room has, at 112 bytes each.
	roomParts = 256
	// maxKept is the longest buffer that is kept for other conversations, in bytes.
	maxKept = 64 << 10
)

// Room is the memory of one conversation that others use after it: parts, and the buffers
// of its digester. A conversation of which nobody says that it is over has memory of its
// own.
type Room struct {
	parts []Part
	used  int

	buffer, args, scratch []byte
	joined                []Part
}

// rooms are free (*Room).
var rooms sync.Pool

// NewDigester returns a digester with the memory of a conversation that is over, if there
// is one.
func NewDigester(c *Cache) Digester {
	r, ok := rooms.Get().(*Room)
	if !ok {
		r = &Room{}
	}
	d := Digester{Cache: c, room: r, Buffer: r.buffer, args: r.args, Parts: r.joined}
	d.Hasher.Scratch = r.scratch
	return d
}

// Take returns n empty parts.
func (d *Digester) Take(n int) []Part {
	r := d.room
	if r == nil || r.used+n > len(r.parts) {
		return make([]Part, n)
	}
	from := r.used
	r.used += n
	return r.parts[from:r.used:r.used]
}

// Free gives the memory of a conversation that is over to others: the parts that Take
// returned, and the buffers. The digester goes on without it.
func (d *Digester) Free() {
	r := d.room
	if r == nil {
		return
	}
	if r.parts == nil {
		r.parts = make([]Part, roomParts)
	}
	clear(r.parts[:r.used])
	clear(d.Parts[:cap(d.Parts)])
	r.used, r.joined = 0, d.Parts[:0]
	r.buffer, r.args, r.scratch = kept(d.Buffer), kept(d.args), kept(d.Hasher.Scratch)
	*d = Digester{Cache: d.Cache}
	rooms.Put(r)
}

// kept returns a buffer, empty, unless it is long.
func kept(b []byte) []byte {
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}
