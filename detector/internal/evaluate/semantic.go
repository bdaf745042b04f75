package evaluate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/semanticpb"
)

const (
	// longestTTL is the longest time for which a policy can have texts remembered.
	longestTTL = 30 * 24 * time.Hour
	// turnMemory is how long texts count once an answer has ended a turn of their
	// conversation: agents that are woken, and people, ask for the same work again. What comes
	// later than that is no quick repeat for the exact detectors, either.
	turnMemory = 20 * time.Second
	// maxReserve bounds the part of a check's budget that is left for the way back: two
	// fifths of it, 20 of 50 ms.
	maxReserve = 50 * time.Millisecond
	// The throttle is that of the exact detectors.
	delayStep, maxDelay = 100 * time.Millisecond, 30 * time.Second
	// repeated is the similarity of a text that repeats earlier ones sentence by
	// sentence. That of embeddings is less.
	repeated = 1
)

// usualThreshold is the threshold of policies that set none.
var usualThreshold = policy.DefaultSemantic().Threshold

// Semantic evaluates one semantic watch of a check.
type Semantic struct {
	Check *checkpb.Check
	Watch *checkpb.SemanticWatch
	// params is nil if no gateway sends the watch's parameters.
	params *policy.Semantic
	// exact is the count of the request by the policy's exact detectors.
	exact int
	// reported are the keys of the incidents in which the request counts already.
	reported []string
}

// Semantics returns the semantic watches of a check that need a comparison, with the
// counts of its counters and tool watches and the keys of the incidents that these
// reported to.
func Semantics(check *checkpb.Check, hits []uint32, reported []string) (out []*Semantic) {
	for _, w := range check.GetSemantics() {
		if !expected(check, w.GetPolicy(), nil) {
			params, _ := semanticParams(w) // Valid reports faults
			out = append(out, &Semantic{Check: check, Watch: w, params: params, exact: exactHits(check, hits, w), reported: reported})
		}
	}
	return out
}

// Valid reports whether a gateway can have sent the watch.
func (o *Semantic) Valid() bool {
	return len(o.Watch.GetScope()) == sha256.Size && o.params != nil
}

// Key returns the key of the scope's streak.
func (o *Semantic) Key() string {
	return schemas.StreakKey(o.Watch.GetShadow(), o.Watch.GetPolicy(), o.Watch.GetScope())
}

// streakUpdate returns an update of the streak of a scope.
func streakUpdate(shadow bool, policy string, scope []byte, step func(streak.State, time.Time) (streak.State, time.Duration)) Update[streak.State] {
	return Update[streak.State]{schemas.StreakKey(shadow, policy, scope), step}
}

// streakTTL returns how long a streak outlives its last match: as long as the texts do.
func streakTTL(w *checkpb.SemanticWatch) time.Duration {
	params, err := semanticParams(w)
	if err != nil { // of a watch that is not evaluated
		params = policy.DefaultSemantic()
	}
	return time.Duration(params.TTLSeconds) * time.Second
}

func semanticParams(w *checkpb.SemanticWatch) (*policy.Semantic, error) {
	return semantics.of(w.GetParams(), decodeSemantic)
}

// Deferred reports whether the comparison is for the scope's next request.
func (o *Semantic) Deferred() bool { return o.params.Deferred }

var scopeKinds = map[string]semanticpb.ScopeKind{
	"session": semanticpb.ScopeKind_SCOPE_KIND_SESSION,
	"caller":  semanticpb.ScopeKind_SCOPE_KIND_CALLER,
	"tenant":  semanticpb.ScopeKind_SCOPE_KIND_TENANT,
}

// IDs returns the id under which the text is remembered, which ends with unique, and the prefix
// of the id of the text that it replaces; "" for none. A request that was checked before
// replaces the text of its check.
func (o *Semantic) IDs(unique string) (id, replaces string) {
	switch request := o.Check.GetRequestId(); {
	case request == "" || o.Check.GetPeek():
		return unique, ""
	case o.Check.GetAsked():
		return askedID(request) + unique, ""
	default:
		return unique, askedID(request)
	}
}

// askedID returns the prefix of the ids of texts of a request that was only checked.
func askedID(request string) string {
	sum := sha256.Sum256([]byte(request))
	return "asked." + hex.EncodeToString(sum[:8]) + "."
}

// Request returns the request to an embedding worker, which has budget to answer.
func (o *Semantic) Request(id, replaces string, budget time.Duration) *semanticpb.SemanticRequest {
	w, p := o.Watch, o.params
	alone := o.Check.GetExchange().GetSaid() == ""
	r := &semanticpb.SemanticRequest{
		RequestId: id, Replaces: replaces, ScopeKind: scopeKinds[p.Scope], ScopeKey: hex.EncodeToString(w.GetScope()),
		Threshold: p.Threshold, MinMatches: uint32(p.MinMatches), HistorySize: uint32(p.HistorySize),
		TtlSeconds: uint32(p.TTLSeconds), MinWords: uint32(p.MinWords), StoreText: p.StoreText,
		BudgetMs: uint32(budget / time.Millisecond), Peek: o.Check.GetPeek(),
		Compare: w.GetCompare(), LeaveIdentical: w.GetLeaveIdentical(), Lazy: w.GetLazy(),
		UsualThreshold: p.Scope == "session" && !alone && p.Threshold == usualThreshold,
		Subject:        &semanticpb.SemanticRequest_Exchange{Exchange: o.Check.GetExchange()},
	}
	if alone {
		r.Subject = &semanticpb.SemanticRequest_Text{Text: o.Check.GetExchange().GetAnswered()}
		r.Trace = o.Check.GetExchange().GetTrace()
	}
	return r
}

// ExpectStreak returns the request that tells an embedding worker that the streak of a watch is
// about to be written.
func ExpectStreak(w *checkpb.SemanticWatch, budget time.Duration) *semanticpb.SemanticRequest {
	r := &semanticpb.SemanticRequest{ScopeKey: hex.EncodeToString(w.GetScope()), StreakFollows: true, BudgetMs: uint32(budget / time.Millisecond)}
	if p, err := semanticParams(w); err == nil {
		r.ScopeKind, r.TtlSeconds = scopeKinds[p.Scope], uint32(p.TTLSeconds)
	}
	return r
}

// WaitUntil returns the time until which a request waits for its comparison: the end of
// the policy's budget, and early enough for the decision to arrive before the deadline
// of the check; a zero deadline is none.
func (o *Semantic) WaitUntil(received, deadline time.Time) time.Time {
	until := received.Add(time.Duration(o.params.BudgetMS) * time.Millisecond)
	if deadline.IsZero() {
		return until
	}
	reserve := min(deadline.Sub(received)*2/5, maxReserve)
	if back := deadline.Add(-reserve); back.Before(until) {
		until = back
	}
	return until
}

// Changes reports whether a comparison may change a streak, even where the scope has none.
func (o *Semantic) Changes(reply *semanticpb.SemanticReply) bool {
	return reply.GetDetected() || o.Check.GetIdempotency() != ""
}

// Comparison reads a worker's answer about the text with the given ids. compared says
// that it is a comparison, and not a fault or a text that is too short.
func (o *Semantic) Comparison(reply *semanticpb.SemanticReply, compared bool, id, replaces string, now time.Time) streak.Comparison {
	c := streak.Comparison{
		Compared: compared, Similar: compared && reply.GetDetected(), Similarity: similarity(reply), ID: id, MinMatches: o.params.MinMatches,
		Text: hex.EncodeToString(checkpb.TextDigest(o.Check.GetExchange())), Incident: conversation(o.Check, o.Watch.GetScope()),
		Key: keyMark(o.Check),
	}
	for _, m := range o.counted(reply.GetMatches()) {
		c.Matches = append(c.Matches, m.GetRequestId())
		c.At = append(c.At, now.Add(-time.Duration(m.GetAgeMs())*time.Millisecond).UnixMilli())
	}
	c.Similar = c.Similar && (len(c.Matches) == len(reply.GetMatches()) || len(c.Matches) >= c.MinMatches)
	if reply.GetReplaced() {
		c.Replaced = replaces
	}
	return c
}

// counted returns the matches that count: after an earlier turn of the conversation has
// ended, those of the last seconds.
func (o *Semantic) counted(all []*semanticpb.SemanticMatch) []*semanticpb.SemanticMatch {
	if !o.Watch.GetTurned() {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m *semanticpb.SemanticMatch) bool {
		return time.Duration(m.GetAgeMs())*time.Millisecond > turnMemory
	})
}

// keyMark returns the part of a request's idempotency key that a streak keeps.
func keyMark(check *checkpb.Check) string {
	key := check.GetIdempotency()
	return key[:min(len(key), 16)]
}

func similarity(reply *semanticpb.SemanticReply) float64 {
	if reply.GetRepeats() {
		return repeated
	}
	return min(reply.GetMaxSimilarity(), math.Nextafter(repeated, 0))
}

// Recall adds the request to its scope's streak. A ttl of 0 leaves the streak as it is.
func (o *Semantic) Recall(s streak.State) (next streak.State, r streak.Recalled, ttl time.Duration) {
	next, r, changed := streak.Recall(s, o.Check.GetRetry())
	if !changed {
		return s, r, 0
	}
	return next, r, streakTTL(o.Watch)
}

// Compare applies a comparison to the scope's streak. A ttl of 0 leaves the streak as
// it is.
func (o *Semantic) Compare(s streak.State, c streak.Comparison) (next streak.State, m streak.Match, ttl time.Duration) {
	next, m = streak.Compare(s, c)
	switch {
	case next.Equal(s):
		return s, m, 0
	case next.IsZero():
		return next, m, time.Second // there is nothing to keep
	default:
		return next, m, streakTTL(o.Watch)
	}
}

// Postpone keeps a similarity in the streak, for the scope's next request.
func (o *Semantic) Postpone(s streak.State, similarity float64) (streak.State, time.Duration) {
	s.Late = max(s.Late, similarity)
	return s, streakTTL(o.Watch)
}

// Incident returns a finding for the record of its incident. A request that was counted
// when its decision was asked for is no further hit.
func (o *Semantic) Incident(f *checkpb.Finding, m streak.Match, now time.Time) Incident {
	in := newIncident(o.Check, f, now)
	in.Conversation = cmp.Or(m.Incident, in.Conversation)
	if m.Known {
		in.Hits = 0
	}
	if f.GetAction().Stops() && !f.GetShadow() { // no text is compared of a request that is stopped already
		in.Saved = saved(o.Check, in.Hits)
	}
	if slices.Contains(o.reported, in.Key()) {
		in.Hits = 0
	}
	if o.exact > 1 {
		in.Related = append(in.Related, relatedCounters(o.Check, f.GetPolicy(), f.GetShadow())...)
	}
	return in
}

// Finding returns the finding for a streak of count matches; nil while the policy
// allows it, and where its exact detectors have counted as many repeats.
func (o *Semantic) Finding(count int, similarity float64) *checkpb.Finding {
	action, at := o.step(count, similarity)
	if action == checkpb.Action_ACTION_ALLOW || o.exact > 1 && o.exact >= count {
		return nil
	}
	f := &checkpb.Finding{
		Policy: o.Watch.GetPolicy(), Detector: finding.Semantic, Fingerprint: o.Watch.GetScope(), Shadow: o.Watch.GetShadow(),
		Action: action, HitCount: uint32(count), Threshold: uint32(at), WindowSeconds: uint32(o.params.TTLSeconds),
		Similarity: similarity,
	}
	if action == checkpb.Action_ACTION_THROTTLE {
		f.DelayMs = uint32(min(time.Duration(count)*delayStep, maxDelay) / time.Millisecond)
	}
	return f
}

// step returns the action for a streak, and the count from which on it holds. With
// HintOnly, only a text that repeats others sentence by sentence gets more than a hint.
func (o *Semantic) step(count int, similarity float64) (action checkpb.Action, at int) {
	for _, s := range o.params.Steps() {
		if s.At <= count {
			action, at = actionOf(s.Action), s.At
		}
	}
	if o.Watch.GetHintOnly() && similarity < repeated {
		action = min(action, checkpb.Action_ACTION_HINT)
	}
	return action, at
}

// Late returns the finding that came too late for the request before; nil for none.
func (o *Semantic) Late(r streak.Recalled) *checkpb.Finding {
	if r.Late == 0 {
		return nil
	}
	return o.Finding(r.Matches, r.Late)
}

// ExcuseText returns the update that notes that the call with a text got no answer; false
// if there is nothing to note.
func ExcuseText(w *checkpb.SemanticWatch, digest []byte) (Update[streak.State], bool) {
	text := hex.EncodeToString(digest)
	return streakUpdate(w.GetShadow(), w.GetPolicy(), w.GetScope(), func(s streak.State, _ time.Time) (streak.State, time.Duration) {
		return streak.Excuse(s, text), streakTTL(w)
	}), len(w.GetScope()) == sha256.Size && len(digest) > 0
}

// EndStreak returns the update that ends a scope's streak, for an operator. Texts from
// before the release match nothing any more. kept is how long the policy remembers
// texts; 0 if unknown.
func EndStreak(ref *checkpb.CounterRef, kept time.Duration) Update[streak.State] {
	if kept == 0 {
		kept = longestTTL
	}
	return streakUpdate(ref.GetShadow(), ref.GetPolicy(), ref.GetFingerprint(), func(_ streak.State, now time.Time) (streak.State, time.Duration) {
		return streak.Released(now), kept.Truncate(time.Second) + time.Second
	})
}

// expected reports whether every call of the newest exchange is one that the policy expects to
// be repeated, such as a poll, or that satisfies also, which may be nil.
func expected(check *checkpb.Check, policy string, also func(*checkpb.ToolCall) bool) bool {
	for _, tools := range check.GetWatches() {
		items := tools.GetHistory().GetItems()
		if tools.GetPolicy() != policy || len(items) == 0 {
			continue
		}
		calls := items[len(items)-1].GetCalls()
		params, err := paramsOf(tools)
		return err == nil && len(calls) > 0 && !slices.ContainsFunc(calls, func(c *checkpb.ToolCall) bool {
			return !params.Expects(c.GetTool(), c.GetPoll() || c.GetWait() || also != nil && also(c))
		})
	}
	return false
}

// exactHits returns the highest count of the request by an exact detector of the
// watch's policy.
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
