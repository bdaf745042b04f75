package answerscan

import (
	"io"
	"iter"

	"github.com/unloop/unloop/gateway/internal/wire/encoding"
)

// decoder decodes what it is fed into a writer, as much as can be decoded each time.
// Decoding libraries want to read, so one runs as a coroutine that rests when it has read
// all that came.
type decoder struct {
	rest []byte
	over bool
	// more lets the library go on until it needs bytes; stop is the end of the body.
	more func() (struct{}, bool)
	stop func()
}

func decode(coding string, into io.Writer) *decoder {
	d := &decoder{}
	d.more, d.stop = iter.Pull(func(rest func(struct{}) bool) {
		r, err := encoding.NewReader(coding, reading(func(p []byte) (int, error) {
			for len(d.rest) == 0 && !d.over {
				d.over = !rest(struct{}{})
			}
			if len(d.rest) == 0 {
				return 0, io.EOF
			}
			n := copy(p, d.rest)
			d.rest = d.rest[n:]
			return n, nil
		}))
		if err != nil {
			return // nothing can be read
		}
		defer func() { _ = r.Close() }()
		_, _ = io.Copy(into, r) // what can't be decoded is not scanned
	})
	d.feed(nil)
	return d
}

// reading is a reader that is a function.
type reading func(p []byte) (int, error)

func (f reading) Read(p []byte) (int, error) { return f(p) }

// feed returns when all of p is decoded that can be without what follows.
func (d *decoder) feed(p []byte) {
	d.rest = p
	d.more()
}
