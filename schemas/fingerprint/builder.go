package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Fingerprint is SHA-256 over length-prefixed fields under a domain tag. It is the key of
// counters, and events and answers show it.
type Fingerprint [sha256.Size]byte

// String returns f in lower-case hexadecimal, 64 characters.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Bytes returns f as a slice, for messages.
func (f Fingerprint) Bytes() []byte { return f[:] }

// Digest returns the first half of f, for state that stays within one session.
func (f Fingerprint) Digest() Digest { return Digest(f[:16]) }

// Builder collects the fields of a fingerprint. Each field is preceded by its
// length, so that no two different lists of fields hash alike, whatever is in
// them. Make one with [New]; it must not be used by two goroutines at once.
type Builder struct {
	// The fields are the first n bytes of room or, if they do not fit, more. A slice of room
	// would put each Builder on the heap.
	room [usualFields]byte
	n    int
	more []byte
}

// usualFields is enough for the fields of most fingerprints, in bytes.
const usualFields = 256

// New returns a Builder whose fingerprints differ from those of every other
// domain. A domain is a constant such as "unloop/prompt/1": raise its number
// when the meaning of the fields changes.
func New(domain string) *Builder {
	b := &Builder{}
	return b.String(domain)
}

// Bytes adds one field.
func (b *Builder) Bytes(field []byte) *Builder {
	if b.fits(len(field)) {
		b.n += copy(b.room[b.n:], field)
	} else {
		b.more = append(b.more, field...)
	}
	return b
}

// String adds one field. Were it inlined, New would not be, and each Builder on the heap.
//
//go:noinline
func (b *Builder) String(field string) *Builder {
	if b.fits(len(field)) {
		b.n += copy(b.room[b.n:], field)
	} else {
		b.more = append(b.more, field...)
	}
	return b
}

// fits adds the length of the field that follows, and reports whether the field goes into room.
func (b *Builder) fits(length int) bool {
	if b.more == nil && b.n+lengthSize+length <= usualFields {
		binary.BigEndian.PutUint64(b.room[b.n:], uint64(length))
		b.n += lengthSize
		return true
	}
	if b.more == nil {
		b.more = append(make([]byte, 0, 2*usualFields+length), b.room[:b.n]...)
	}
	b.more = binary.BigEndian.AppendUint64(b.more, uint64(length))
	return false
}

// lengthSize is the size of the length before a field, in bytes.
const lengthSize = 8

// Digest adds one field that was hashed before.
func (b *Builder) Digest(d Digest) *Builder { return b.Bytes(d[:]) }

// Number adds one field, a whole number: a count, or the length of a list whose
// elements follow.
func (b *Builder) Number(n int) *Builder {
	var field [8]byte
	binary.BigEndian.PutUint64(field[:], uint64(n)) //nolint:gosec // the bits are what is hashed
	return b.Bytes(field[:])
}

// Sum returns the fingerprint of the fields so far. More may be added after.
func (b *Builder) Sum() Fingerprint {
	if b.more != nil {
		return sha256.Sum256(b.more)
	}
	return sha256.Sum256(b.room[:b.n])
}
