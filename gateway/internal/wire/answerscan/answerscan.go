// Package answerscan reads an upstream's answer once, while it passes to the client:
// whole or as a stream of events, compressed or not. It reports the JSON values of the
// answer to any number of watchers.
//
// It knows JSON, event streams and content codings; the watchers know what a value means. Its
// memory does not grow with the answer.
package answerscan

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// Watcher receives the parts of an answer in their order, each before the client can read
// that far. The bytes of a call are valid until it returns.
type Watcher interface {
	// Names returns the names of the values that the watcher wants from now on; nil for all.
	// Values are not reported from an event of a stream that contains none of the names of its
	// watchers, apart from names whose value is null.
	Names() *Names
	// Document reports that a document begins; only the first of an event of a stream is reported.
	Document()
	// Event reports the name of an event of a stream, or data of one that is no object.
	Event(name []byte)
	// Text reports a string that is the value of a name, as it is between the quotes. Empty strings and those over 192 bytes are not reported.
	Text(at *Place, text []byte)
	// Literal reports a number, true or false that is the value of a name.
	Literal(at *Place, text []byte)
	// Object reports that an object in a document begins. It returns the maximum length, in bytes,
	// up to which the watcher wants the object's JSON; 0 if it does not want the object.
	Object(at *Place) (most int)
	// JSON reports an object that the watcher wanted. Until then it is asked for no
	// other.
	JSON(at *Place, object []byte)
	// Closed reports the end of an object or list. The documents of a stream are not
	// reported, since others follow.
	Closed(at *Place)
	// End reports, once, that no more of the answer is read. whole says that it came
	// to its end; otherwise the client left, or the upstream broke off.
	End(whole bool)
}

// Watch returns the body of an answer, which is scanned for the watchers while it is read.
// The bytes pass unchanged. If an answer can't be decoded, only its end is reported.
func Watch(res *http.Response, watchers ...Watcher) io.ReadCloser {
	if len(watchers) == 0 {
		return res.Body
	}
	if b, scanned := res.Body.(*body); scanned && !b.ended {
		b.scanner.add(watchers)
		return b
	}
	b := &body{ReadCloser: res.Body, scanner: newScanner(IsStream(res.Header), watchers), left: res.ContentLength}
	b.into = b.scanner
	if framing := formats.Framing(res.Header.Get("Content-Type")); framing != nil {
		b.into = framing.Events(b.scanner)
	}
	switch coding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
	default:
		b.decoder = decode(coding, b.into)
	}
	return b
}

// IsStream reports whether an answer is a stream of events.
func IsStream(h http.Header) bool {
	kind := h.Get("Content-Type")
	return strings.HasPrefix(strings.ToLower(kind), "text/event-stream") || formats.Framing(kind) != nil
}

// body is an answer's body that is scanned while it is read.
type body struct {
	io.ReadCloser
	scanner *scanner
	into    io.Writer // the scanner, or a writer that turns frames into events for it
	decoder *decoder  // nil for an answer that is not compressed
	left    int64     // announced bytes that have not come; below zero if none were announced
	ended   bool
}

// Read reads the body. An answer is whole with its last announced byte: a client that knows
// the length does not read on.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.ended {
		return n, err
	}
	if b.decoder != nil {
		b.decoder.feed(p[:n])
	} else {
		_, _ = b.into.Write(p[:n]) // never fails
	}
	b.left -= int64(n)
	if whole := b.left == 0 || errors.Is(err, io.EOF); whole || err != nil {
		b.end(whole)
	}
	return n, err
}

// Close ends the scan of an answer that is not read to its end.
func (b *body) Close() error {
	b.end(false)
	return b.ReadCloser.Close()
}

func (b *body) end(whole bool) {
	if b.ended {
		return
	}
	b.ended = true
	if b.decoder != nil {
		b.decoder.stop()
	}
	b.scanner.end(whole)
}
