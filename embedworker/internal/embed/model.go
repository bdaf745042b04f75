package embed

import (
	"context"
	"fmt"

	"github.com/unloop/unloop/embedworker/internal/wordpiece"
)

// model embeds with a transformer behind a batcher: tokens, windows, vectors.
type model struct {
	name      string
	dim       int
	tokenizer *wordpiece.Tokenizer
	batcher   *batcher
	limits    Limits
	free      func() error
}

func (m *model) Name() string { return m.name }

func (m *model) Dim() int { return m.dim }

// Close implements Embedder.
func (m *model) Close() error {
	m.batcher.close()
	return m.free()
}

// Embed implements Embedder.
func (m *model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	var rows [][]int32
	counts := make([]int, len(texts))
	for i, text := range texts {
		windows := m.windows(text)
		if len(windows) == 0 {
			return nil, fmt.Errorf("%w: text %d has no token", ErrEmpty, i)
		}
		rows, counts[i] = append(rows, windows...), len(windows)
	}
	vectors, err := m.batcher.vectors(ctx, rows)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(texts))
	for i, n := range counts {
		if out[i], err = mean(vectors[:n]); err != nil {
			return nil, err
		}
		vectors = vectors[n:]
	}
	return out, nil
}

// bytesPerToken bounds how much of a long text is tokenized: words of more
// bytes a token than this are not text.
const bytesPerToken = 32

// windows returns the rows of a text: all of it where it fits, else its end,
// or its last windows from the oldest to the newest.
func (m *model) windows(text string) [][]int32 {
	before, after := m.tokenizer.Around()
	room := m.limits.Tokens - len(before) - len(after)
	most := 1
	if m.limits.LongText == LongAverage {
		most = m.limits.Windows
	}
	text = ending(text, most*room*bytesPerToken)
	ids := m.tokenizer.Append(make([]int32, 0, min(len(text)/3+8, most*room)), text)
	if len(ids) > most*room {
		ids = ids[len(ids)-most*room:]
	}
	var rows [][]int32
	for len(ids) > 0 {
		// The first window is the short one: a window's end is whole.
		n := (len(ids)-1)%room + 1
		row := make([]int32, 0, n+len(before)+len(after))
		row = append(append(append(row, before...), ids[:n]...), after...)
		rows, ids = append(rows, row), ids[n:]
	}
	return rows
}

// mean returns the mean of unit vectors, at length 1.
func mean(vectors [][]float32) ([]float32, error) {
	if len(vectors) == 1 {
		return vectors[0], nil
	}
	sum := make([]float32, len(vectors[0]))
	for _, v := range vectors {
		for i, x := range v {
			sum[i] += x
		}
	}
	if !normalize(sum) {
		return nil, fmt.Errorf("%w: windows cancel out", ErrInference)
	}
	return sum, nil
}
