package answerscan

import (
	"io"

	"github.com/unloop/unloop/gateway/internal/encoding"
)

// decoder decodes what it is fed into a writer, as much as can be decoded each time.
// Decoding libraries want to read, so one runs in a goroutine, by turns with the caller
// that feeds it.
type decoder struct {
	more chan []byte
	// idle says that the library wants more; it is closed when it takes no more.
	idle chan struct{}
	rest []byte
	over bool
}

func decode(coding string, into io.Writer) *decoder {
	d := &decoder{more: make(chan []byte), idle: make(chan struct{})}
	go func() {
		defer close(d.idle)
		r, err := encoding.NewReader(coding, d)
		if err != nil {
			return // nothing can be read
		}
		defer func() { _ = r.Close() }()
		_, _ = io.Copy(into, r) // what can't be decoded is not scanned
	}()
	_, open := <-d.idle
	d.over = !open
	return d
}

// Read returns bytes to the decoding library.
func (d *decoder) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		d.idle <- struct{}{}
		d.rest = <-d.more
	}
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// feed returns when all of p is decoded that can be without what follows.
func (d *decoder) feed(p []byte) {
	if d.over || len(p) == 0 {
		return
	}
	d.more <- p
	_, open := <-d.idle
	d.over = !open
}

// end makes the library finish, and returns when it has.
func (d *decoder) end() {
	if d.over {
		return
	}
	d.over = true
	close(d.more)
	for range d.idle {
	}
}
