package detector

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unloop/unloop/detector/internal/comparing"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// slowly is a store of streaks that reports only after a while that it has stored.
type slowly struct {
	comparing.Streaks
	after time.Duration
}

func (s *slowly) Apply(ctx context.Context, key string, step ledger.Step[streak.State]) error {
	err := s.Streaks.Apply(ctx, key, step)
	<-time.After(s.after)
	return err
}

// says is a worker with one answer.
type says struct{ reply *semanticpb.SemanticReply }

func (w *says) Answer(context.Context, *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	return w.reply
}

// A match that is stored when its request's time ends neither stops that request nor is
// booked as a stop, and applies to the next request, wherever the time ends.
func TestMatchAtTheDeadlineAppliesToTheNextRequest(t *testing.T) {
	t.Parallel()
	const budget = 50 * time.Millisecond
	for _, takes := range []time.Duration{budget - time.Millisecond, budget, budget + time.Millisecond, 2 * budget} {
		synctest.Test(t, func(t *testing.T) {
			worker := &says{&semanticpb.SemanticReply{Judged: true, Detected: true, Compared: 5, MaxSimilarity: 0.97}}
			j := NewEvaluator(time.Now, worker)
			comparer := j.decider.Semantic
			store := &slowly{comparer.Streaks, takes}
			comparer.Streaks, comparer.Patient = store, false
			check := rejected(budget)
			d := j.Decide(t.Context(), check)
			comparer.Wait()
			stopped := d.GetAction() == checkpb.Action_ACTION_REJECT
			if booked := len(j.Incidents()) == 1; booked != stopped {
				t.Errorf("stored after %s: stopped %t, booked %t", takes, stopped, booked)
			}
			if d.GetSemanticMissed() == stopped {
				t.Errorf("stored after %s: stopped %t, said to be missed %t", takes, stopped, d.GetSemanticMissed())
			}
			store.after = 0
			worker.reply = &semanticpb.SemanticReply{Judged: true, Compared: 5, MaxSimilarity: 0.5}
			if told := j.Decide(t.Context(), check).GetAction() == checkpb.Action_ACTION_REJECT; told == stopped {
				t.Errorf("stored after %s: the request stopped %t, the next one %t", takes, stopped, told)
			}
		})
	}
}

// rejected is a check whose first semantic finding stops it.
func rejected(budget time.Duration) *checkpb.Check {
	scope := sha256.Sum256([]byte("scope"))
	return &checkpb.Check{
		RequestId: "req", Identity: &checkpb.Identity{Caller: "c0ffee", Session: "5e55"},
		Exchange: &semanticpb.Exchange{Said: "Let me look for it.", Answered: "Nothing was found."},
		Semantics: []*checkpb.SemanticWatch{{
			Policy: "default", Scope: scope[:], Params: fmt.Appendf(nil, `{"budget_ms":%d,"action":"reject"}`, budget.Milliseconds()),
		}},
	}
}
