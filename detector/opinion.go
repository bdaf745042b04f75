package detector

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nuid"

	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// opinion is one semantic watch of a check on its way to its finding.
type opinion struct {
	check    *checkpb.Check
	watch    *checkpb.SemanticWatch
	received time.Time
	// exact is how often the policy's exact detectors have seen the request.
	exact int

	mu      sync.Mutex
	found   *checkpb.Finding
	settled bool
	settle  func()
}

func (o *opinion) key() string {
	return schemas.StreakKey(o.watch.GetShadow(), o.watch.GetPolicy(), hex.EncodeToString(o.watch.GetScope()))
}

// ttl is how long a streak outlives its last finding: as long as the texts do.
func (o *opinion) ttl() time.Duration {
	const defaultTTL = time.Hour
	if o.watch.GetTtlSeconds() == 0 {
		return defaultTTL
	}
	return time.Duration(o.watch.GetTtlSeconds()) * time.Second
}

// request is what the worker is asked. A text is remembered under an id of its
// own: clients may send one of theirs with every request.
func (o *opinion) request() *semanticpb.SemanticRequest {
	w := o.watch
	r := &semanticpb.SemanticRequest{
		RequestId: nuid.Next(), ScopeKind: w.GetScopeKind(), ScopeKey: hex.EncodeToString(w.GetScope()),
		Threshold: w.GetThreshold(), MinMatches: w.GetMinMatches(), HistorySize: w.GetHistorySize(),
		TtlSeconds: w.GetTtlSeconds(), MinWords: w.GetMinWords(), StoreText: w.GetStoreText(),
		BudgetMs: uint32(lateFor / time.Millisecond), Peek: o.check.GetPeek(),
		Subject: &semanticpb.SemanticRequest_Exchange{Exchange: o.check.GetExchange()},
	}
	if o.check.GetExchange().GetSaid() == "" {
		r.Subject = &semanticpb.SemanticRequest_Text{Text: o.check.GetExchange().GetAnswered()}
	}
	return r
}

// wait is how long the request waits for its verdict: the policy's budget, and
// no longer than the exact verdicts can.
func (o *opinion) wait(ctx context.Context) time.Duration {
	until := o.received.Add(time.Duration(o.watch.GetBudgetMs()) * time.Millisecond)
	if deadline, ok := ctx.Deadline(); ok {
		reserve := min(deadline.Sub(o.received)*2/5, maxReserve)
		if back := deadline.Add(-reserve); back.Before(until) {
			until = back
		}
	}
	return time.Until(until)
}

// end gives the request its finding, or none, unless it has gone on without.
func (o *opinion) end(f *checkpb.Finding) {
	o.mu.Lock()
	if o.settled {
		o.mu.Unlock()
		return
	}
	o.settled = true
	if f != nil {
		o.found = f
	}
	o.mu.Unlock()
	o.settle()
}

// keep gives the request a finding before it goes on.
func (o *opinion) keep(f *checkpb.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.found = f
}

func (o *opinion) isSettled() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.settled
}

func (o *opinion) result() *checkpb.Finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.found
}

// finding is what so many findings in a row come to; nil if nothing is done yet.
// Where the policy's exact detectors count as many, the repeats are theirs to
// judge.
func (o *opinion) finding(count int, similarity float64) *checkpb.Finding {
	var step *checkpb.Step
	for _, s := range o.watch.GetSteps() {
		if int(s.GetAt()) <= count {
			step = s
		}
	}
	if step.GetAction() == checkpb.Action_ACTION_ALLOW || o.exact > 1 && o.exact >= count {
		return nil
	}
	f := &checkpb.Finding{
		Policy: o.watch.GetPolicy(), Detector: detectorSemantic, Fingerprint: o.watch.GetScope(), Shadow: o.watch.GetShadow(),
		Action: step.GetAction(), HitCount: uint32(count), Threshold: step.GetAt(), WindowSeconds: uint32(o.ttl() / time.Second),
		Similarity: similarity, Message: repeatMessage(count),
	}
	if step.GetAction() == checkpb.Action_ACTION_THROTTLE {
		f.DelayMs = uint32(min(time.Duration(count)*delayStep, maxDelay) / time.Millisecond)
	}
	return f
}

// late is the finding that came too late for the request before; nil for none.
func (o *opinion) late(r streak.Recalled) *checkpb.Finding {
	if r.Late == 0 {
		return nil
	}
	return o.finding(r.Findings, r.Late)
}

func repeatMessage(count int) string {
	if count == 1 {
		return "the newest exchange says what earlier ones said, in other words"
	}
	return fmt.Sprintf("the last %d exchanges say what earlier ones said, in other words", count)
}

// expected says that the newest exchange is a round of calls that the policy
// expects to be repeated, such as polls.
func expected(check *checkpb.Check, w *checkpb.SemanticWatch) bool {
	for _, tools := range check.GetWatches() {
		items := tools.GetHistory().GetItems()
		if tools.GetPolicy() != w.GetPolicy() || len(items) == 0 {
			continue
		}
		calls := items[len(items)-1].GetCalls()
		params := paramsOf(tools.GetParams())
		return len(calls) > 0 && !slices.ContainsFunc(calls, func(c *checkpb.ToolCall) bool {
			return !params.Expects(c.GetTool(), c.GetPoll())
		})
	}
	return false
}

// exactHits is how often the exact detectors of a watch's policy have seen the
// request, of those that count it most.
func exactHits(check *checkpb.Check, hits []uint32, w *checkpb.SemanticWatch) int {
	most := uint32(0)
	for i, c := range check.GetCounters() {
		if i < len(hits) && c.GetPolicy() == w.GetPolicy() && c.GetShadow() == w.GetShadow() {
			most = max(most, hits[i])
		}
	}
	for i, t := range check.GetWatches() {
		if i += len(check.GetCounters()); i < len(hits) && t.GetPolicy() == w.GetPolicy() && t.GetShadow() == w.GetShadow() {
			most = max(most, hits[i])
		}
	}
	return int(most)
}
