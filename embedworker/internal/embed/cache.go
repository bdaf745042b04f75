package embed

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"
)

// Cached remembers the vectors of the texts that came last, so that the same
// text again costs no inference. It keeps hashes of texts, not texts.
type Cached struct {
	Embedder
	vectors *otter.Cache[[sha256.Size]byte, []float32]
	onHit   func()
}

// NewCached remembers up to size texts of an embedder; onHit is called for
// each text that is answered from memory, and may be nil.
func NewCached(e Embedder, size int, onHit func()) (*Cached, error) {
	vectors, err := otter.New(&otter.Options[[sha256.Size]byte, []float32]{MaximumSize: size})
	if err != nil {
		return nil, fmt.Errorf("make a cache of %d vectors: %w", size, err)
	}
	if onHit == nil {
		onHit = func() {}
	}
	return &Cached{Embedder: e, vectors: vectors, onHit: onHit}, nil
}

// Embed implements Embedder. The vectors are shared: they must not be changed.
func (c *Cached) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	keys := make([][sha256.Size]byte, len(texts))
	var missing []string
	for i, text := range texts {
		keys[i] = sha256.Sum256([]byte(text))
		if v, ok := c.vectors.GetIfPresent(keys[i]); ok {
			out[i] = v
			c.onHit()
		} else if !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	made, err := c.Embedder.Embed(ctx, missing...)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		if out[i] == nil {
			out[i] = made[slices.Index(missing, text)]
			c.vectors.Set(keys[i], out[i])
		}
	}
	return out, nil
}
