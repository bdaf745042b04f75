package request

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"net/http"

	"github.com/unloop/unloop/gateway/internal/wire/size"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Sample is how much of a body that is too large to hold goes into its digest.
const Sample = 64 << 10

// Body is a request's body: whole, or its beginning if the rest is still to come.
type Body struct {
	Bytes []byte
	// Text is the body as plain JSON; nil until it is decoded. It differs from Bytes if the
	// body is compressed, or in another dialect of JSON.
	Text []byte
	// Rest follows Bytes if the body is too large to hold.
	Rest io.Reader
	// Length is the body's length; -1 if it was not announced.
	Length int64
	// Changed says that the body is not the one that the client sent.
	Changed bool
	// Canon is the digest of the body, once it is known.
	Canon *fingerprint.Digest
	// Whole, if not nil, is called with the digest of a body that was too large to hold,
	// after all of it has passed.
	Whole func(fingerprint.Digest)
	// tokens is the estimated size of the body, and bounds are the limits that it sets; nil
	// until they are known.
	tokens *uint32
	bounds *usage.Bounds
}

// Continuing returns a body that has only the end of a request. The estimate of all tokens, the
// bounds and the digest are those of the whole request.
func (b *Body) Continuing(estimate int, bounds usage.Bounds, digest fingerprint.Digest) *Body {
	out, n := *b, uint32(min(estimate, math.MaxUint32))
	out.tokens, out.bounds, out.Canon = &n, &bounds, &digest
	return &out
}

// Bounds returns the bounds that the body sets.
func (b *Body) Bounds() usage.Bounds {
	if b.bounds == nil {
		bounds := usage.BoundsOf(b.Inspected())
		b.bounds = &bounds
	}
	return *b.bounds
}

// Reader returns a reader of the body for the upstream.
func (b *Body) Reader() io.ReadCloser {
	switch {
	case b.Rest != nil:
		all := io.MultiReader(bytes.NewReader(b.Bytes), b.Rest)
		if b.Whole != nil {
			all = &hashing{all, sha256.New(), b.Whole}
		}
		return io.NopCloser(all)
	case len(b.Bytes) == 0:
		return http.NoBody
	default:
		return io.NopCloser(bytes.NewReader(b.Bytes)) // of types that net/http knows to be in memory
	}
}

// Decoded returns the body with its content as plain JSON.
func (b *Body) Decoded(text []byte) *Body {
	out := *b
	out.Text = text
	return &out
}

// Sized returns the body with its size, which the caller knows.
func (b *Body) Sized(s size.Size) *Body {
	out, n := *b, tokens(s)
	out.tokens = &n
	return &out
}

func tokens(s size.Size) uint32 { return uint32(min(s.Tokens(), math.MaxUint32)) }

// With returns the body with other bytes, which the client did not send.
func (b *Body) With(changed []byte) *Body {
	out := *b
	if b.Length >= 0 {
		out.Length = int64(len(changed))
	}
	out.Bytes, out.Changed = changed, true
	return &out
}

// Recoded reports whether the content that was read differs from the bytes that are
// sent: the body is compressed or no strict JSON.
func (b *Body) Recoded() bool {
	return len(b.Text) > 0 && len(b.Bytes) > 0 && &b.Text[0] != &b.Bytes[0] && !b.Changed
}

// Inspected returns the content of the body: decoded, if that is known.
func (b *Body) Inspected() []byte {
	if b.Text != nil {
		return b.Text
	}
	return b.Bytes
}

// PromptTokens returns an estimate of the number of tokens in the body.
func (b *Body) PromptTokens() uint32 {
	if b.tokens == nil {
		n := tokens(size.Of(b.Inspected()))
		b.tokens = &n
	}
	return *b.tokens
}

// Digest returns a digest of the content: of JSON in any order, spacing and dialect, or else of
// the bytes. The digest of a body that is too large to hold covers its beginning and its length,
// unless Canon is set.
func (b *Body) Digest() fingerprint.Digest {
	if b.Canon != nil {
		return *b.Canon
	}
	var d fingerprint.Digest
	if b.Rest != nil {
		length := fmt.Appendf(nil, "%d", b.Length)
		d = fingerprint.Chain(fingerprint.Bytes(b.Bytes[:min(len(b.Bytes), Sample)]), fingerprint.Bytes(length))
	} else {
		var err error
		if d, err = fingerprint.JSON(b.Inspected()); err != nil {
			d = fingerprint.Dialect(b.Inspected())
		}
	}
	b.Canon = &d
	return d
}

// hashing reads a body, and calls done with the digest of all of it at its end.
type hashing struct {
	io.Reader
	sum  hash.Hash
	done func(fingerprint.Digest)
}

func (h *hashing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && h.done != nil {
		h.done(fingerprint.Bytes(h.sum.Sum(nil)))
		h.done = nil
	}
	return n, err
}
