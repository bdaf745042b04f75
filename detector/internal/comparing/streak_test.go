package comparing_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// looks are streaks that count how often they are looked at.
type looks struct {
	*ledger.Memory[streak.State]
	n int
	// dies says that the detector is killed before its next write is stored.
	dies bool
}

func (s *looks) Apply(ctx context.Context, key string, step ledger.Step[streak.State]) error {
	s.n++
	if s.dies {
		s.dies = false
		return errNo
	}
	return s.Memory.Apply(ctx, key, step)
}

func (s *looks) Start(ctx context.Context, key string, step ledger.Step[streak.State], done func(error)) {
	done(s.Apply(ctx, key, step))
}

// noting are workers that keep a note of each scope with a streak.
type noting struct {
	scopes map[string]bool
	// last has the id of the newest text of each scope.
	last map[string]string
	// similar says that the next text is a match.
	similar bool
	// forgetful workers never say that there is no streak, as those of earlier versions.
	forgetful bool
}

func (n *noting) answer(_ context.Context, r *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
	if r.GetStreakFollows() {
		n.scopes[r.GetScopeKey()] = true
		return &semanticpb.SemanticReply{Streak: semanticpb.Streak_STREAK_POSSIBLE}, nil
	}
	reply := &semanticpb.SemanticReply{Judged: true, Compared: 5, MaxSimilarity: 0.5, Detected: n.similar, Streak: semanticpb.Streak_STREAK_NONE}
	if n.similar {
		reply.MaxSimilarity = 0.97
		reply.Matches = []*semanticpb.SemanticMatch{{Similarity: 0.97, RequestId: n.last[r.GetScopeKey()]}}
	}
	if !r.GetPeek() {
		n.last[r.GetScopeKey()] = r.GetRequestId()
	}
	switch {
	case n.forgetful:
		reply.Streak = semanticpb.Streak_STREAK_UNKNOWN
	case n.scopes[r.GetScopeKey()]:
		reply.Streak = semanticpb.Streak_STREAK_POSSIBLE
	}
	return reply, nil
}

// fleet are two detectors on the same records.
type fleet struct {
	streaks *looks
	workers *noting
	members []*fixture
}

func newFleet(forgetful bool) *fleet {
	f := &fleet{streaks: &looks{Memory: ledger.NewMemory[streak.State](time.Now)}, workers: &noting{scopes: map[string]bool{}, last: map[string]string{}, forgetful: forgetful}}
	for range 2 {
		one := newFixture(f.workers.answer)
		one.Streaks, one.Patient = f.streaks, true
		f.members = append(f.members, one)
	}
	return f
}

// event is something that happens to a scope.
type event struct {
	scope, member, text                int
	similar, retry, excuse, peek, dies bool
	key                                string
}

func (e event) watch() *evaluate.Semantic {
	return watch(func(c *checkpb.Check, w *checkpb.SemanticWatch) {
		scope := sha256.Sum256([]byte(fmt.Sprint("scope", e.scope)))
		w.Scope, c.Exchange = scope[:], &semanticpb.Exchange{Answered: fmt.Sprint("text ", e.text)}
		c.Retry, c.Peek, c.Idempotency = e.retry, e.peek, e.key
	})
}

// happen lets an event happen and returns what the request gets.
func (f *fleet) happen(t *testing.T, e event) string {
	s, one := e.watch(), f.members[e.member]
	f.workers.similar, f.streaks.dies = e.similar, e.dies
	defer func() { f.streaks.dies = false }()
	if e.excuse {
		excuse, _ := evaluate.ExcuseText(s.Watch, checkpb.TextDigest(s.Check.GetExchange()))
		one.Excuse(t.Context(), s.Watch, excuse, func(error) {})
		return ""
	}
	r := one.Compare(t.Context(), s)
	return fmt.Sprint(r.Finding.GetHitCount(), r.Finding.GetAction(), r.Missed)
}

func drawEvent(r *rand.Rand) event {
	e := event{scope: r.IntN(3), member: r.IntN(2), text: r.IntN(4)}
	switch n := r.IntN(20); {
	case n < 7:
	case n < 13:
		e.similar = true
	case n < 15:
		e.retry = true
	case n < 17:
		e.excuse = true
	case n < 18:
		e.peek, e.similar = true, r.IntN(2) == 0
	default:
		e.key, e.similar = fmt.Sprint("key", r.IntN(2)), r.IntN(2) == 0
	}
	// Of a write that none of them makes, none can be lost.
	e.dies = r.IntN(12) == 0 && (e.similar || e.retry || e.excuse) && !e.peek
	return e
}

// Detectors that look at a streak only where the workers have a note that there may be one
// decide as detectors do that look each time, also when they are killed between the note
// and the write.
func TestStreaksAreLookedAtWhereThereMayBeOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 1))
		each, seldom := newFleet(true), newFleet(false)
		var events []event
		for range 60 {
			e := drawEvent(r)
			events = append(events, e)
			if want, got := each.happen(t, e), seldom.happen(t, e); want != got {
				t.Fatalf("seed %d: %+v gets %s, want %s, after %+v", seed, e, got, want, events)
			}
		}
		for scope := range 3 {
			key := event{scope: scope}.watch().Key()
			want, _ := each.streaks.Read(t.Context(), key)
			got, _ := seldom.streaks.Read(t.Context(), key)
			if len(got.Aside) != len(want.Aside) {
				t.Fatalf("seed %d: texts %v of scope %d are aside, want %v", seed, got.Aside, scope, want.Aside)
			}
			if got.Aside = want.Aside; !got.Equal(want) { // ids are drawn
				t.Fatalf("seed %d: the streak of scope %d is %+v, want %+v", seed, scope, got, want)
			}
		}
	}
}

// A scope without matches, retries and failed calls costs no look at its streak.
func TestAScopeWithoutAStreakIsNotLookedAt(t *testing.T) {
	t.Parallel()
	f := newFleet(false)
	for i := range 10 {
		f.happen(t, event{text: i})
	}
	if f.streaks.n != 0 {
		t.Errorf("looked at %d times", f.streaks.n)
	}
	f.happen(t, event{similar: true})
	scopes := []string{}
	for scope := range f.workers.scopes {
		scopes = append(scopes, scope)
	}
	if want := hex.EncodeToString(event{}.watch().Watch.GetScope()); !slices.Equal(scopes, []string{want}) || f.streaks.n != 1 {
		t.Errorf("looked at %d times, with notes of %v, want one of %s", f.streaks.n, scopes, want)
	}
}
