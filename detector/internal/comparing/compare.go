package comparing

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nuid"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// Compare returns the result of a semantic watch. If the request does not wait for its own
// comparison, it gets the late match of the previous request.
func (c *Comparer) Compare(ctx context.Context, s *evaluate.Semantic) Result {
	r := c.compare(ctx, s)
	r.Missed = r.Missed && !s.Watch.GetShadow()
	return r
}

func (c *Comparer) compare(ctx context.Context, s *evaluate.Semantic) Result {
	q := &query{received: time.Now()}
	q.id, q.replaces = s.IDs(nuid.Next())
	switch {
	case !s.Valid():
		c.metrics.Malformed.Inc()
		return Result{}
	case time.Now().UnixNano() < c.away.Load():
		c.count("no-worker")
		return Result{Missed: true}
	case !s.Deferred() && (!s.Check.GetRetry() || s.Check.GetPeek()):
		return c.await(ctx, s, q)
	}
	recalled, err := c.recall(ctx, s)
	late := Result{Finding: c.note(ctx, s, streak.Match{Recalled: recalled}, s.Late(recalled))}
	switch {
	case recalled.Retry:
		c.count("retry") // a retry is not compared, unless there were too many
	case err != nil || s.Check.GetPeek():
	case s.Deferred():
		q.answer(Result{})
		c.start(ctx, s, q)
	default:
		return c.await(ctx, s, q)
	}
	return late
}

// await returns the comparison's result, or goes on without it when the request can't
// wait any longer.
func (c *Comparer) await(ctx context.Context, s *evaluate.Semantic, q *query) Result {
	compared, ok := c.start(ctx, s, q)
	if !ok {
		return Result{Missed: true}
	}
	if c.Patient {
		return <-compared
	}
	deadline, _ := ctx.Deadline()
	timer := time.NewTimer(time.Until(s.WaitUntil(q.received, deadline)))
	defer timer.Stop()
	select {
	case r := <-compared:
		return r
	case <-timer.C:
	}
	r, first := q.answer(Result{Missed: true})
	if !first {
		return r // of a comparison that is being recorded
	}
	recalled, _ := c.recall(context.WithoutCancel(ctx), s) // without its streak, the request passes
	r.Finding = c.note(ctx, s, streak.Match{Recalled: recalled}, s.Late(recalled))
	return r
}

// start starts a comparison, which goes on when its request does not wait any longer and when
// the detector stops. It returns false if too many are in flight.
func (c *Comparer) start(ctx context.Context, s *evaluate.Semantic, q *query) (<-chan Result, bool) {
	if c.asked.Add(1) > maxAsked {
		c.asked.Add(-1)
		c.count("overloaded")
		return nil, false
	}
	compared := make(chan Result, 1)
	run := func() {
		reply, err := c.worker(context.WithoutCancel(ctx), s.Request(q.id, q.replaces, AnswerTimeout))
		c.asked.Add(-1)
		compared <- c.take(ctx, s, q, reply, err)
	}
	if c.Patient {
		run()
	} else {
		c.begin(run)
	}
	return compared, true
}

// recall adds the request to its scope's streak and returns the state of earlier requests.
func (c *Comparer) recall(ctx context.Context, s *evaluate.Semantic) (r streak.Recalled, err error) {
	step := func(state streak.State) (next streak.State, ttl time.Duration) {
		next, r, ttl = s.Recall(state)
		return next, ttl
	}
	if err := c.update(ctx, s, s.Check.GetRetry(), step); err != nil {
		return streak.Recalled{}, err
	}
	return r, nil
}

// update applies a step to the scope's streak; a peek only evaluates it. likely says that
// the step changes the streak.
func (c *Comparer) update(ctx context.Context, s *evaluate.Semantic, likely bool, step ledger.Step[streak.State]) error {
	var err error
	if s.Check.GetPeek() {
		var state streak.State
		if state, err = c.Streaks.Read(ctx, s.Key()); err == nil {
			step(state)
		}
	} else {
		err = c.apply(ctx, s, likely, step)
	}
	if err != nil {
		c.count("store-error")
	}
	return err
}

// apply applies a step. It tells the workers before it stores a streak: for scopes in which
// they know of none, detectors do not read the streak for texts that match nothing.
func (c *Comparer) apply(ctx context.Context, s *evaluate.Semantic, likely bool, step ledger.Step[streak.State]) error {
	noted, wanting := false, likely
	for {
		if wanting && !noted {
			c.expect(ctx, s.Watch)
			noted = true
		}
		wanting = false
		err := c.Streaks.Apply(ctx, s.Key(), func(state streak.State) (streak.State, time.Duration) {
			next, ttl := step(state)
			if wanting = ttl > 0 && !next.IsZero() && !noted; wanting {
				return state, 0
			}
			return next, ttl
		})
		if err != nil || !wanting {
			return err
		}
	}
}

// expect tells the workers that a streak is about to be stored. Without workers nobody is told,
// and no comparison needs the streak.
func (c *Comparer) expect(ctx context.Context, w *checkpb.SemanticWatch) {
	if time.Now().UnixNano() < c.away.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	reply, err := c.worker(ctx, evaluate.ExpectStreak(w, noteTimeout))
	if err != nil || reply.GetStreak() == semanticpb.Streak_STREAK_UNKNOWN {
		c.count("unnoted")
	}
}

// Excuse applies an update that excuses a text of a watch, and calls done once.
func (c *Comparer) Excuse(ctx context.Context, w *checkpb.SemanticWatch, u evaluate.Update[streak.State], done func(error)) {
	run := func() {
		c.expect(ctx, w)
		c.Streaks.Start(ctx, u.Key, func(state streak.State) (streak.State, time.Duration) { return u.Step(state, c.now()) }, done)
	}
	if c.Patient {
		run()
	} else {
		c.begin(run)
	}
}

// fault returns the result for the metric of an answer without a comparison; "" for a
// comparison.
func (c *Comparer) fault(reply *semanticpb.SemanticReply, err error) string {
	switch {
	case errors.Is(err, natskit.ErrNoResponder):
		c.away.Store(time.Now().Add(awayFor).UnixNano())
		return "no-worker"
	case err != nil:
		return "no-answer"
	case reply.GetError() == semanticpb.SemanticError_SEMANTIC_ERROR_BUSY:
		return "overloaded"
	case reply.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_NONE:
		return "worker-error"
	}
	return ""
}

// take applies a worker's answer to the scope's streak. A match is a finding for this
// request if it still waits, else for the next. Most texts are no match, and their scopes
// have no streak.
func (c *Comparer) take(ctx context.Context, s *evaluate.Semantic, q *query, reply *semanticpb.SemanticReply, err error) Result {
	if err == nil {
		c.seconds.Observe(time.Since(q.received).Seconds())
	}
	fault := c.fault(reply, err)
	compared := fault == "" && reply.GetJudged()
	switch {
	case fault != "":
		c.count(fault)
	case !compared:
		c.count("short")
	case reply.GetDetected():
		c.count("detected")
	default:
		c.count("clear")
	}
	if compared && !s.Changes(reply) && noStreak(reply) {
		return Result{}
	}
	made := s.Comparison(reply, compared, q.id, q.replaces, c.now())
	likely := made.Similar || made.Key != ""
	var m streak.Match
	// It counts whether or not its request still waits.
	err = c.update(context.WithoutCancel(ctx), s, likely, func(state streak.State) (next streak.State, ttl time.Duration) {
		made.Late = q.isAnswered()
		next, m, ttl = s.Compare(state, made)
		return next, ttl
	})
	if err != nil {
		c.metrics.Uncounted.Inc()
		return Result{Missed: true}
	}
	return c.finish(ctx, s, q, made, m, fault != "")
}

// noStreak reports whether the scope had no streak when the text was remembered. Where a
// worker does not know, the first text of a scope has none.
func noStreak(reply *semanticpb.SemanticReply) bool {
	switch reply.GetStreak() {
	case semanticpb.Streak_STREAK_NONE:
		return true
	case semanticpb.Streak_STREAK_UNKNOWN:
		return reply.GetCompared() == 0
	default:
		return false
	}
}

// finish makes findings of a match. Where the request's time ended while the match was
// being stored, they are for the next request.
func (c *Comparer) finish(ctx context.Context, s *evaluate.Semantic, q *query, made streak.Comparison, m streak.Match, missed bool) Result {
	var found *checkpb.Finding
	switch {
	case m.Replay:
		c.count("retry")
	case m.Similar && made.Late:
		c.count("late")
	case m.Similar:
		found = s.Finding(m.Count, made.Similarity)
	}
	late := s.Late(m.Recalled)
	if !made.Late {
		if _, waits := q.answer(Result{Finding: proto.CloneOf(cmp.Or(found, late)), Missed: missed}); !waits {
			c.postpone(ctx, s, made, m)
			return Result{}
		}
	}
	return Result{Finding: c.note(ctx, s, m, late, found), Missed: missed}
}

// postpone keeps a match for the scope's next request, together with the match that
// this request did not get from the request before.
func (c *Comparer) postpone(ctx context.Context, s *evaluate.Semantic, made streak.Comparison, m streak.Match) {
	late := m.Late
	if m.Similar {
		c.count("late")
		late = made.Similarity
	}
	if late == 0 || s.Check.GetPeek() {
		return
	}
	err := c.update(context.WithoutCancel(ctx), s, true, func(state streak.State) (streak.State, time.Duration) { return s.Postpone(state, late) })
	if err != nil {
		c.metrics.Uncounted.Inc()
	}
}

// note records findings in their incident, except for a peek, and returns the last one;
// nil is none.
func (c *Comparer) note(ctx context.Context, s *evaluate.Semantic, m streak.Match, findings ...*checkpb.Finding) *checkpb.Finding {
	findings = slices.DeleteFunc(findings, func(f *checkpb.Finding) bool { return f == nil })
	if len(findings) == 0 {
		return nil
	}
	for _, f := range findings {
		if s.Check.GetPeek() {
			break
		}
		id, err := c.record(ctx, s.Incident(f, m, c.now()).Finding)
		if err != nil {
			c.metrics.Unrecorded.Inc()
		}
		f.LoopId = id
	}
	return findings[len(findings)-1]
}
