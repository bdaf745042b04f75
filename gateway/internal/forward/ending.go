package forward

import (
	"bytes"
	"io"
)

// endOfStream is the data of the last event of OpenAI's streams. Their SDKs hang up once
// they have read it, before the body ends.
var endOfStream = []byte("[DONE]")

// ending is the body of a stream. It notes that the last event was read.
type ending struct {
	io.ReadCloser
	seen *bool
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if n > 0 {
		*e.seen = bytes.HasSuffix(bytes.TrimRight(p[:n], "\r\n"), endOfStream)
	}
	return n, err
}
