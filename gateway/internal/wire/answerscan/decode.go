package answerscan

import (
	"io"
	"iter"

	"github.com/unloop/unloop/gateway/internal/wire/encoding"
)

// decoder decodes pieces of a body as they come, and writes the content to a writer. Decoding
// libraries pull their input, so one runs as a coroutine that pauses when it has read everything
// that has come so far.
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

// feed decodes as much of p as can be decoded without the bytes that follow it.
func (d *decoder) feed(p []byte) {
	d.rest = p
	d.more()
}
