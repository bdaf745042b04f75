// Package release releases loops for operators: it resets the records behind an incident,
// and makes every gateway and detector forget them.
//
// It does not know who may release a loop, or how records are evaluated.
package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/blocks"
	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/ledger"
)

const (
	// timeout bounds a release.
	timeout = 10 * time.Second
	// maxRefs bounds the counters that a message names.
	maxRefs = 1000
	// minKept is the shortest time for which an emptied counter is kept: until all detectors
	// have forgotten its block.
	minKept = time.Minute
)

// Records are stored records.
type Records[S any] interface {
	Apply(ctx context.Context, key string, step ledger.Step[S]) error
}

// Releaser releases loops.
type Releaser struct {
	Log       *slog.Logger
	Now       func() time.Time
	Counters  Records[counter.State]
	Sessions  Records[toolloop.State]
	Budgets   Records[limit.State]
	Streaks   Records[streak.State]
	Blocks    *blocks.Blocks
	Incidents *recorder.Recorder
	Publish   func(subject string, body []byte) error
}

// Release releases the loop with the given id.
func (r *Releaser) Release(loopID string) *checkpb.ReleaseReply {
	ctx, cancel := context.WithTimeout(ledger.Stay(context.Background()), timeout)
	defer cancel()
	refs, err := r.Incidents.Release(ctx, loopID, r.reset)
	if errors.Is(err, recorder.ErrNotOpen) {
		return &checkpb.ReleaseReply{Error: err.Error()}
	}
	if err != nil {
		r.Log.Warn("loop not released", "loop_id", loopID, "error", err)
		return &checkpb.ReleaseReply{Error: "the store did not answer; try again"}
	}
	for part := range slices.Chunk(refs, maxRefs) {
		if err := r.forget(&checkpb.Forget{Counters: part, LoopId: loopID}); err != nil {
			return &checkpb.ReleaseReply{Error: "gateways were not told; try again"}
		}
	}
	return &checkpb.ReleaseReply{Released: refs[:min(len(refs), maxRefs)], Count: uint32(len(refs))}
}

func (r *Releaser) forget(f *checkpb.Forget) error {
	body, err := proto.Marshal(f)
	if err != nil {
		return err
	}
	return r.Publish(schemas.SubjectForget, body)
}

// Forget forgets what this process remembers of a loop that a detector releases.
func (r *Releaser) Forget(f *checkpb.Forget) {
	r.Incidents.Forget(f.GetLoopId())
	for _, ref := range f.GetCounters() {
		r.Blocks.Forget(evaluate.CounterKey(ref), evaluate.PartOfCounter(ref))
	}
}

// reset resets one record behind an incident, which its policy keeps for so long.
func (r *Releaser) reset(ctx context.Context, ref *checkpb.CounterRef, kept time.Duration) error {
	switch ref.GetDetector() {
	case finding.Semantic:
		return apply(ctx, r, r.Streaks, evaluate.EndStreak(ref, kept))
	case finding.CircuitBreaker:
		closed, in := evaluate.ResetBreaker(ref)
		if err := apply(ctx, r, r.Budgets, closed); err != nil {
			return fmt.Errorf("close circuit breaker: %w", err)
		}
		return r.Incidents.Resolve(ctx, in, event.ReasonReleased)
	case finding.Tool, finding.Cycle:
		return apply(ctx, r, r.Sessions, evaluate.Release(ref, kept))
	}
	return r.resetCounter(ctx, ref, kept)
}

func apply[S any](ctx context.Context, r *Releaser, records Records[S], u evaluate.Update[S]) error {
	return records.Apply(ctx, u.Key, func(s S) (S, time.Duration) { return u.Step(s, r.Now()) })
}

// resetCounter empties a counter's record, or the part of it that the reference names: the
// others are of other conversations. An empty record is more than none: a detector that has
// yet to forget the block would begin a record with it.
func (r *Releaser) resetCounter(ctx context.Context, ref *checkpb.CounterRef, kept time.Duration) error {
	key, mark := evaluate.CounterKey(ref), evaluate.PartOfCounter(ref)
	r.Blocks.Forget(key, mark)
	if err := r.forget(&checkpb.Forget{Counters: []*checkpb.CounterRef{ref}}); err != nil {
		return err
	}
	if err := r.Blocks.Remove(ctx, key, mark); err != nil {
		return err
	}
	return r.Counters.Apply(ctx, key, func(s counter.State) (counter.State, time.Duration) {
		now := r.Now()
		return counter.Released(r.Blocks.Restore(key, s, now), mark, now), max(kept, minKept)
	})
}
