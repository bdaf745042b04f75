package embed_test

import (
	"context"
	"errors"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
)

// counting counts the texts that reach an embedder.
type counting struct {
	embed.Embedder
	texts int
}

func (c *counting) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	c.texts += len(texts)
	return c.Embedder.Embed(ctx, texts...)
}

func TestIdenticalTextsAreEmbeddedOnce(t *testing.T) {
	t.Parallel()
	inner, hits := &counting{Embedder: embed.NewLexical()}, 0
	c, err := embed.NewCached(inner, 10, func() { hits++ })
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Embed(t.Context(), "one text", "another text", "one text")
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Embed(t.Context(), "another text", "a third text")
	if err != nil {
		t.Fatal(err)
	}
	if inner.texts != 3 || hits != 1 {
		t.Errorf("%d texts were embedded and %d remembered, want 3 and 1", inner.texts, hits)
	}
	if embed.Cosine(first[1], second[0]) < 0.999 || embed.Cosine(first[0], first[2]) < 0.999 || embed.Cosine(second[0], second[1]) > 0.99 {
		t.Error("vectors were mixed up")
	}
	if _, err := c.Embed(t.Context(), "one text", ""); !errors.Is(err, embed.ErrEmpty) {
		t.Errorf("empty text: got %v", err)
	}
}
