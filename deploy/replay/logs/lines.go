package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Lines reads lines up to a limit. Make it with NewLines.
type Lines struct {
	// N is the number of the line that was read last, from 1, and Bytes the size of all so far.
	N     int
	Bytes int64

	raw   *bufio.Reader
	limit int
	long  []byte // a line that is longer than the buffer
}

// NewLines returns a reader of lines.
func NewLines(r io.Reader, limit int) *Lines {
	return &Lines{raw: bufio.NewReaderSize(r, 16<<10), limit: limit}
}

// Next returns the next line without its end, valid until the next call, and io.EOF with the last
// one. A line that is too long is read to its end and returned as an error.
func (l *Lines) Next() ([]byte, error) {
	l.N++
	line, err := l.raw.ReadSlice('\n')
	size := len(line)
	for l.long = l.long[:0]; errors.Is(err, bufio.ErrBufferFull) || len(l.long) > 0; {
		if size <= l.limit {
			l.long = append(l.long, line...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			line = l.long
			break
		}
		line, err = l.raw.ReadSlice('\n')
		size += len(line)
	}
	l.Bytes += int64(size)
	if size > l.limit {
		if err == nil || errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLong, size, l.limit)
		}
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), err
}
