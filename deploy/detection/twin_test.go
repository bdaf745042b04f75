package detection

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Embeddings are numbers of exchanges.
type Embeddings struct {
	// Exchanges were compared, and Embedded times one was embedded for that.
	Exchanges, Embedded int
	// Differing are those with another result than if every exchange is embedded.
	Differing int
}

func (e Embeddings) plus(o Embeddings) Embeddings {
	return Embeddings{e.Exchanges + o.Exchanges, e.Embedded + o.Embedded, e.Differing + o.Differing}
}

// twin compares the answers of a worker with those of one that embeds every exchange.
type twin struct {
	detector.Worker
	always     *embedworker.Offline
	embeddings *Embeddings // what is counted now
}

// newTwin returns a twin by a clock. It holds nothing that has to be closed.
func newTwin(ctx context.Context, lexical embedworker.Config, now func() time.Time) (*twin, error) {
	always, err := embedworker.NewOffline(ctx, lexical, now, slog.New(slog.DiscardHandler))
	return &twin{always: always}, err
}

// beside puts the twin before a worker.
func (w *twin) beside(worker detector.Worker) detector.Worker {
	w.Worker = worker
	return w
}

// Answer returns the answer of the worker.
func (w *twin) Answer(ctx context.Context, r *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	every := proto.CloneOf(r)
	every.Lazy = false
	got, want := w.Worker.Answer(ctx, r), w.always.Answer(ctx, every)
	if r.GetExchange() != nil && got.GetJudged() {
		w.embeddings.Exchanges++
		w.embeddings.Embedded += int(got.GetEmbedded())
	}
	w.embeddings.Differing += count(!proto.Equal(outcome(got), outcome(want)))
	return got
}

// outcome returns what detectors use of an answer.
func outcome(a *semanticpb.SemanticReply) *semanticpb.SemanticReply {
	out := proto.CloneOf(a)
	out.Embedded = 0
	if !out.GetDetected() {
		out.MaxSimilarity, out.Matches = 0, nil
	}
	return out
}
