package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
)

// Kinds of embedder.
const (
	KindAuto    = "auto"
	KindONNX    = "onnx"
	KindLexical = "lexical"
)

// Config configures an embedder.
type Config struct {
	Kind string // KindAuto, KindONNX or KindLexical
	// Model is an .onnx file beside its tokenizer.json or vocab.txt, or a folder with both, in
	// which the model is model.onnx.
	Model string
	// Runtime is ONNX Runtime's shared library.
	Runtime string
	Limits  Limits
	// OnRun, if not nil, is called with the number of texts of each run of a model.
	OnRun func(texts int)
}

// Limits bound the work of a model.
type Limits struct {
	Tokens  int // of a text, special ones included; only the end of a longer one is read
	Queue   int // texts that wait; with more, Embed returns ErrBusy
	Batch   int // texts of one run
	Threads int // of one run; 0 means one for each processor
}

// DefaultLimits are those of all-MiniLM-L6-v2, which was trained on 256 tokens.
func DefaultLimits() Limits {
	return Limits{Tokens: 256, Queue: 256, Batch: 16}
}

// Validate returns all faults.
func (c Config) Validate() error {
	var faults []error
	switch c.Kind {
	case KindAuto, KindONNX, KindLexical:
	default:
		faults = append(faults, fmt.Errorf("embedder %q is none of auto, onnx, lexical", c.Kind))
	}
	return errors.Join(append(faults, c.Limits.validate()...)...)
}

func (l Limits) validate() (faults []error) {
	for _, n := range []struct {
		what         string
		value, least int
	}{{"tokens", l.Tokens, 8}, {"queue", l.Queue, 1}, {"threads", l.Threads, 0}} {
		if n.value < n.least {
			faults = append(faults, fmt.Errorf("%s are %d, must be at least %d", n.what, n.value, n.least))
		}
	}
	return faults
}

// Open returns the configured embedder, loaded and warmed up. KindAuto is the model if runtime
// and model work, else the lexical embedder; the log says which and why.
func Open(ctx context.Context, c Config, log *slog.Logger) (Embedder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Limits.Threads == 0 {
		c.Limits.Threads = runtime.NumCPU()
	}
	if c.Kind == KindLexical {
		return NewLexical(), nil
	}
	e, err := openModel(ctx, c)
	switch {
	case err == nil:
		log.Info("embedding with ONNX Runtime", "embedder", e.Name(), "model", c.Model)
		return e, nil
	case c.Kind == KindONNX:
		return nil, fmt.Errorf("open ONNX embedder: %w", err)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	log.Info("embedding with the built-in lexical embedder", "embedder", lexicalName, "because", err)
	return NewLexical(), nil
}
