package embed

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"
)

// Cached is an embedder with a cache of vectors by hashes of texts.
type Cached struct {
	Embedder
	vectors *otter.Cache[[sha256.Size]byte, []float32]
	onHit   func()
}

// NewCached puts a cache of size vectors in front of an embedder. onHit, if not nil, is called for
// each text whose vector is cached.
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

// Embed implements Embedder. The vectors are shared and must not be modified.
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
