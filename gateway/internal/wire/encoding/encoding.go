// Package encoding decompresses bodies so that they can be inspected, within a limit: a few
// compressed bytes can hold gigabytes. It does not look at the content.
package encoding

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Faults of a body that is not decoded.
var (
	ErrUnknown  = errors.New("unknown content coding")
	ErrTooLarge = errors.New("decoded body too large")
	ErrCorrupt  = errors.New("corrupt compressed body")
)

// maxCodings is how many codings one body may have on top of each other.
const maxCodings = 3

// Decode returns the content of a body with the given Content-Encoding, or ErrTooLarge if it has
// more than limit bytes. Without a coding that is the body itself, else a copy, for which take
// reserves memory.
func Decode(contentEncoding string, body []byte, limit int64, take func(n int) error) ([]byte, error) {
	if contentEncoding == "" {
		return body, nil
	}
	codings := strings.Split(strings.ToLower(contentEncoding), ",")
	if len(codings) > maxCodings {
		return nil, fmt.Errorf("%w: %d of them", ErrUnknown, len(codings))
	}
	content, used := body, make([]*bytes.Buffer, 0, maxCodings)
	defer func() {
		for _, scratch := range used {
			scratches.Put(scratch)
		}
	}()
	for _, coding := range slices.Backward(codings) { // the last was applied last
		coding = strings.TrimSpace(coding)
		if coding == "" || coding == "identity" {
			continue
		}
		scratch := scratches.Get().(*bytes.Buffer)
		used = append(used, scratch)
		scratch.Reset()
		if err := decode(coding, content, limit, scratch); err != nil {
			return nil, err
		}
		content = scratch.Bytes()
	}
	if len(used) == 0 {
		return body, nil
	}
	if err := take(len(content)); err != nil {
		return nil, err
	}
	return bytes.Clone(content), nil
}

// scratches are the buffers for decoding. The decoded size is not known in advance, and few bodies
// are decoded at the same time.
var scratches = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// NewReader returns a reader of the content of a body with one coding, for bodies that
// are not in memory: it holds no more than a window of them.
func NewReader(contentEncoding string, body io.Reader) (io.ReadCloser, error) {
	return open(strings.ToLower(strings.TrimSpace(contentEncoding)), body, maxWindow)
}

// Accept narrows a client's Accept-Encoding to the codings that a Reader reads.
func Accept(accepted []string) string {
	var kept []string
	for one := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		name, _, _ := strings.Cut(one, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "x-gzip", "br", "zstd", "identity":
			kept = append(kept, strings.TrimSpace(one))
		}
	}
	if len(kept) == 0 {
		return "identity"
	}
	return strings.Join(kept, ", ")
}

// decode writes the content of a body with one coding.
func decode(coding string, body []byte, limit int64, to *bytes.Buffer) error {
	r, err := open(coding, bytes.NewReader(body), limit)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	n, err := to.ReadFrom(io.LimitReader(r, limit+1)) // it grows with what comes, not with what a header promises
	switch {
	case n > limit, errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	default:
		return nil
	}
}

// open returns a reader of the content of a body with one coding.
func open(coding string, body io.Reader, limit int64) (io.ReadCloser, error) {
	switch coding {
	case "gzip", "x-gzip":
		zr, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return zr, nil
	case "br":
		return io.NopCloser(brotli.NewReader(body)), nil
	case "zstd":
		zr, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(uint64(limit)+minWindow), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return zr.IOReadCloser(), nil
	default:
		return nil, fmt.Errorf("%w: %.40q", ErrUnknown, coding)
	}
}

// Bounds on what a zstd frame may ask for before its first byte is known. The
// window is that of the format's recommended limit for HTTP (RFC 9659).
const (
	minWindow = 1 << 20
	maxWindow = 8 << 20
)
