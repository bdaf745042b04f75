package embedworker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Offline answers semantic requests with the code of a worker, and keeps histories
// in this process. They expire by the given clock, so recorded traffic can be
// replayed faster than it was made. It is safe for concurrent use.
type Offline struct {
	embedder *embed.Cached
	checker  *semantic.Checker
	log      *slog.Logger
}

// NewOffline loads the configured embedder. Of the other settings it uses only those of the
// model and its cache.
func NewOffline(ctx context.Context, cfg Config, now func() time.Time, log *slog.Logger) (*Offline, error) {
	e, err := embed.Open(ctx, cfg.embedConfig(), log)
	if err != nil {
		return nil, fmt.Errorf("load the embedder: %w", err)
	}
	cached, err := embed.NewCached(e, cfg.EmbedCache, nil)
	if err != nil {
		_ = e.Close() // it was only made
		return nil, fmt.Errorf("load the embedder: %w", err)
	}
	return (&Offline{embedder: cached, log: log}).Another(now), nil
}

// Another returns one that has no histories, by another clock. It has the same embedder, which
// ends with the one that loaded it.
func (o *Offline) Another(now func() time.Time) *Offline {
	return &Offline{embedder: o.embedder, checker: semantic.New(o.embedder, vectors.NewMemory(now), semantic.Observer{}), log: o.log}
}

// Embedder returns the name of the embedder.
func (o *Offline) Embedder() string { return o.embedder.Name() }

// Answer compares one text or exchange with its scope's history and remembers it.
func (o *Offline) Answer(ctx context.Context, r *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	return decide(ctx, o.checker, r, o.log)
}

// Close frees the model.
func (o *Offline) Close() error { return o.embedder.Close() }
