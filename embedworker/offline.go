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

// Offline answers semantic requests as a worker does, with histories in this process. They
// expire by a given clock, so that recorded traffic can be replayed faster than in real time.
// It is safe for concurrent use.
type Offline struct {
	embedder *embed.Cached
	checker  *semantic.Checker
	log      *slog.Logger
}

// NewOffline loads the configured embedder. It uses only the settings of the embedder and its
// cache.
func NewOffline(ctx context.Context, cfg Config, now func() time.Time, log *slog.Logger) (*Offline, error) {
	e, err := embed.Open(ctx, cfg.embedConfig(), log)
	if err != nil {
		return nil, fmt.Errorf("load the embedder: %w", err)
	}
	cached, err := embed.NewCached(e, cfg.EmbedCache, nil)
	if err != nil {
		_ = e.Close() // it was not used
		return nil, fmt.Errorf("load the embedder: %w", err)
	}
	return (&Offline{embedder: cached, log: log}).Another(now), nil
}

// Another returns one with no histories and another clock. It shares the embedder, which is
// closed with the one that loaded it.
func (o *Offline) Another(now func() time.Time) *Offline {
	return &Offline{embedder: o.embedder, checker: semantic.New(o.embedder, vectors.NewMemory(now), semantic.Observer{}), log: o.log}
}

// Embedder returns the name of the embedder.
func (o *Offline) Embedder() string { return o.embedder.Name() }

// Answer compares a text or exchange with the history of its scope, and adds it.
func (o *Offline) Answer(ctx context.Context, r *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	return decide(ctx, o.checker, r, o.log)
}

// Close frees the model.
func (o *Offline) Close() error { return o.embedder.Close() }
