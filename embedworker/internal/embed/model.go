package embed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unloop/unloop/embedworker/internal/onnx"
	"github.com/unloop/unloop/embedworker/internal/wordpiece"
)

// model embeds with a transformer behind a batcher.
type model struct {
	name      string
	session   *onnx.Session
	tokenizer *wordpiece.Tokenizer
	batcher   *batcher
	limits    Limits
}

// openModel loads tokenizer, runtime and model, and warms the model up for the first request.
func openModel(ctx context.Context, c Config) (*model, error) {
	if c.Runtime == "" || c.Model == "" {
		return nil, fmt.Errorf("%w: ONNX Runtime or the model is not installed (unloop model pull installs both)", ErrUnavailable)
	}
	path := c.Model
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "model.onnx")
	}
	name, err := modelName(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	tokenizer, err := wordpiece.Load(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	s, err := onnx.Open(onnx.Config{Runtime: c.Runtime, Model: path, Threads: c.Limits.Threads, Pad: tokenizer.Pad()})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m := &model{name: name, session: s, tokenizer: tokenizer, limits: c.Limits}
	m.batcher = newBatcher(m, c.Limits, c.OnRun)
	if err := m.warmUp(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: warm up %s: %w", ErrUnavailable, path, err), m.Close())
	}
	return m, nil
}

// modelName returns a name that depends on the file's content: vectors of the same file can be
// compared across machines, those of different files can't.
func modelName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read model: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read model %s: %w", path, err)
	}
	return "onnx-" + hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// warmUp runs a row of each length group and checks the results.
func (m *model) warmUp(ctx context.Context) error {
	sample := m.row(strings.Repeat("is this the same question again? ", m.limits.Tokens))
	for _, n := range append(append([]int{}, bucketEnds[:]...), m.limits.Tokens) {
		v, err := m.batcher.vectors(ctx, [][]int32{sample[:min(n, len(sample))]})
		if err != nil {
			return err
		}
		if length := Cosine(v[0], v[0]); math.Abs(length-1) > 1e-3 {
			return fmt.Errorf("%w: vector of length %g", ErrInference, length)
		}
	}
	return nil
}

// run implements runner.
func (m *model) run(rows [][]int32) ([][]float32, error) {
	vectors, err := m.session.Run(rows)
	if err != nil {
		return nil, err
	}
	for _, v := range vectors {
		if !normalize(v) {
			return nil, fmt.Errorf("%w: the model's vector has no length", ErrInference)
		}
	}
	return vectors, nil
}

func (m *model) Name() string { return m.name }

func (m *model) Dim() int { return m.session.Dim() }

func (*model) Within() float64 { return 0 }

// Close implements Embedder.
func (m *model) Close() error {
	m.batcher.close()
	return m.session.Close()
}

// Embed implements Embedder.
func (m *model) Embed(ctx context.Context, texts ...string) ([][]float32, error) {
	rows := make([][]int32, len(texts))
	for i, text := range texts {
		if rows[i] = m.row(text); rows[i] == nil {
			return nil, fmt.Errorf("%w: text %d has no token", ErrEmpty, i)
		}
	}
	return m.batcher.vectors(ctx, rows)
}

// bytesPerToken bounds how much of a long text is tokenized. Real text has fewer bytes per
// token.
const bytesPerToken = 32

// row returns the tokens of a text, or of its end if it is too long; nil if it has none.
func (m *model) row(text string) []int32 {
	before, after := m.tokenizer.Around()
	room := m.limits.Tokens - len(before) - len(after)
	text = ending(text, room*bytesPerToken)
	ids := m.tokenizer.Append(make([]int32, 0, min(len(text)/3+8, room)), text)
	if len(ids) == 0 {
		return nil
	}
	return slices.Concat(before, ids[max(0, len(ids)-room):], after)
}
