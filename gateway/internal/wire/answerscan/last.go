package answerscan

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// lastLines are the lines of the last event of a stream. OpenAI's and Anthropic's SDKs hang
// up once they have read it, before the body ends.
var lastLines = [...]string{
	"data: [DONE]", "data:[DONE]",
	"event: message_stop", "event: response.completed", "event: response.incomplete", "event: response.failed",
}

// Last returns the body of a stream, and sets seen when its last event is read.
func Last(res *http.Response, seen *bool) io.ReadCloser {
	l := &last{ReadCloser: res.Body, seen: seen}
	switch coding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
	default:
		l.decoder = decode(coding, writing(l.scan))
	}
	return l
}

// last is the body of a stream. It keeps the beginning of the current line.
type last struct {
	io.ReadCloser
	seen    *bool
	decoder *decoder // nil for a stream that is not compressed
	line    []byte
}

// Read reads the body.
func (l *last) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	switch {
	case *l.seen:
	case l.decoder != nil:
		l.decoder.feed(p[:n])
	default:
		_, _ = l.scan(p[:n])
	}
	return n, err
}

// Close ends the decoding, too.
func (l *last) Close() error {
	if l.decoder != nil {
		l.decoder.stop()
	}
	return l.ReadCloser.Close()
}

// scan reads lines. It never fails.
func (l *last) scan(p []byte) (int, error) {
	for rest, more := p, true; more; {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte("\n"))
		l.line = append(l.line, line[:min(len(line), maxLine-len(l.line))]...)
		for _, mark := range lastLines {
			*l.seen = *l.seen || string(bytes.TrimRight(l.line, "\r")) == mark
		}
		if more {
			l.line = l.line[:0]
		}
	}
	return len(p), nil
}

// writing is a writer that is a function.
type writing func(p []byte) (int, error)

func (f writing) Write(p []byte) (int, error) { return f(p) }
