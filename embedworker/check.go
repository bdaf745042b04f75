package embedworker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/internal/semantic"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/schemas/details"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/tracing"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// onCheck answers a request in the goroutine of its sender, if that waits, or else in a new one:
// the handlers of a subscription run one by one, and a batch needs requests that wait at the
// same time.
func (w *Worker) onCheck(req natskit.Request) {
	r, err := natskit.Message[semanticpb.SemanticRequest](req)
	if err != nil {
		w.reply(req, failure(semanticpb.SemanticError_SEMANTIC_ERROR_INVALID, "request is malformed"))
		return
	}
	if !w.begin(req.Waits(), func() { w.reply(req, w.checkWithin(req.Header, r)) }) {
		w.reply(req, failure(semanticpb.SemanticError_SEMANTIC_ERROR_BUSY, "too many checks are in flight"))
	}
}

func failure(code semanticpb.SemanticError, message string) *semanticpb.SemanticReply {
	return &semanticpb.SemanticReply{Error: code, ErrorMessage: message}
}

func (w *Worker) reply(req natskit.Request, answer *semanticpb.SemanticReply) {
	w.metrics.checks.WithLabelValues(result(answer)).Inc()
	if !req.Expected() {
		return
	}
	answer.Embedder = w.embedderName
	if err := req.Answer(answer); err != nil {
		w.metrics.unanswered.Inc()
	}
}

// result returns the value of an answer in the label result.
func result(a *semanticpb.SemanticReply) string {
	switch a.GetError() {
	case semanticpb.SemanticError_SEMANTIC_ERROR_NONE:
	case semanticpb.SemanticError_SEMANTIC_ERROR_INVALID:
		return "invalid"
	case semanticpb.SemanticError_SEMANTIC_ERROR_BUSY:
		return "busy"
	case semanticpb.SemanticError_SEMANTIC_ERROR_LATE:
		return "late"
	case semanticpb.SemanticError_SEMANTIC_ERROR_INFERENCE:
		return "inference_error"
	default:
		return "store_error"
	}
	switch {
	case !a.GetJudged() && a.GetStreak() == semanticpb.Streak_STREAK_POSSIBLE:
		return "noted"
	case !a.GetJudged():
		return "skipped"
	case a.GetDetected():
		return "detected"
	}
	return "clear"
}

// checkWithin is check in a span, if the headers of the request have a trace.
func (w *Worker) checkWithin(h nats.Header, r *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	if w.deps.Traces == nil || h == nil {
		return w.check(r)
	}
	ctx := tracing.FromNATS(context.Background(), h)
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return w.check(r)
	}
	_, span := w.deps.Traces.Start(ctx, "embeddings "+w.embedderName, trace.SpanKindServer,
		attribute.String("gen_ai.operation.name", "embeddings"), attribute.String("gen_ai.request.model", w.embedderName))
	defer span.End()
	reply := w.check(r)
	span.SetAttributes(attribute.String("unloop.result", result(reply)), attribute.Int("unloop.compared", int(reply.GetCompared())),
		attribute.Int("unloop.embedded", int(reply.GetEmbedded())))
	if reply.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_NONE {
		span.SetStatus(codes.Error, result(reply))
	}
	return reply
}

// maxBudget bounds the time for one check, whatever the request allows.
const maxBudget = 10 * time.Second

func (w *Worker) check(r *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	budget := time.Duration(r.GetBudgetMs()) * time.Millisecond
	if budget == 0 || budget > maxBudget {
		budget = maxBudget
	}
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	return decide(ctx, w.checker, r, w.log)
}

func decide(ctx context.Context, c *semantic.Checker, r *semanticpb.SemanticRequest, log *slog.Logger) *semanticpb.SemanticReply {
	if r.GetStreakFollows() {
		if err := c.Expect(ctx, query(r)); err != nil {
			return failure(errorCode(err), err.Error())
		}
		return &semanticpb.SemanticReply{Streak: semanticpb.Streak_STREAK_POSSIBLE}
	}
	a, err := c.Check(ctx, query(r))
	if err != nil {
		log.Debug("semantic check failed", "request", r.GetRequestId(), "error", err)
		return failure(errorCode(err), err.Error())
	}
	return answer(a, r.GetStoreText())
}

// scopeKinds are the names of scope kinds in the stores' keys.
var scopeKinds = map[semanticpb.ScopeKind]string{
	semanticpb.ScopeKind_SCOPE_KIND_UNSPECIFIED: "session",
	semanticpb.ScopeKind_SCOPE_KIND_SESSION:     "session",
	semanticpb.ScopeKind_SCOPE_KIND_CALLER:      "caller",
	semanticpb.ScopeKind_SCOPE_KIND_TENANT:      "tenant",
}

// methods maps the wire's values of methods. An unknown one compares embeddings.
var methods = map[semanticpb.Compare]compare.Method{
	semanticpb.Compare_COMPARE_EMBEDDINGS:  compare.ByEmbeddings,
	semanticpb.Compare_COMPARE_SENTENCES:   compare.BySentences,
	semanticpb.Compare_COMPARE_OWN_HISTORY: compare.InOwnHistory,
}

// query converts a request. The checker refuses values that are out of range.
func query(r *semanticpb.SemanticRequest) semantic.Query {
	trace := r.GetTrace()
	if trace == nil {
		trace = r.GetExchange().GetTrace()
	}
	q := semantic.Query{
		ScopeKind: scopeKinds[r.GetScopeKind()], ScopeKey: r.GetScopeKey(), ID: r.GetRequestId(), Replaces: r.GetReplaces(),
		Text: r.GetText(), Said: r.GetExchange().GetSaid(), Answered: r.GetExchange().GetAnswered(),
		MinWords: int(r.GetMinWords()), Keep: int(r.GetHistorySize()), TTL: time.Duration(r.GetTtlSeconds()) * time.Second,
		StoreText: r.GetStoreText(), Peek: r.GetPeek(), UsualThreshold: r.GetUsualThreshold(), Lazy: r.GetLazy() && trace != nil && trace.Details != nil,
		Rule: compare.Rule{
			Threshold: r.GetThreshold(), MinMatches: int(r.GetMinMatches()), AnyDetails: r.GetSourceRule(), Method: methods[r.GetCompare()],
			LeaveIdentical: r.GetLeaveIdentical(), Earlier: trace.GetEarlier(), Further: trace.GetFurther(), Others: trace.GetOthers(),
		},
		Subject: compare.Subject{
			Digest: trace.GetDigest(), Details: details.Sum(trace.GetDetails()),
			Sentences: compare.SentencesOf(trace.GetSentences()), Beginnings: compare.SentencesOf(trace.GetBeginnings()),
		},
	}
	for _, e := range r.GetExchange().GetAlike() {
		q.Alike = append(q.Alike, semantic.Exchange{Said: e.GetSaid(), Answered: e.GetAnswered(), Digest: e.GetDigest()})
	}
	return q
}

// streaks maps streaks to their wire values; the unknown streak has none.
var streaks = map[vectors.Streak]semanticpb.Streak{
	vectors.StreakNone: semanticpb.Streak_STREAK_NONE, vectors.StreakPossible: semanticpb.Streak_STREAK_POSSIBLE,
}

func answer(a semantic.Answer, withText bool) *semanticpb.SemanticReply {
	out := &semanticpb.SemanticReply{
		Judged: a.Judged, Detected: a.Detected, MaxSimilarity: a.MaxSimilarity, Compared: uint32(len(a.History)), Replaced: a.Replaced, Repeats: a.Repeats,
		Streak: streaks[a.Streak], Embedded: uint32(a.Embedded),
	}
	for _, i := range a.Matches {
		f := a.History[i]
		m := &semanticpb.SemanticMatch{
			Similarity: f.Similarity, RequestId: f.ID, AgeMs: uint32(max(0, min(f.Age.Milliseconds(), 1<<32-1))),
		}
		if withText {
			m.Text = f.Text
		}
		out.Matches = append(out.Matches, m)
	}
	return out
}

// errorCode returns the wire's code of an error. Any other error is one of the embedder.
func errorCode(err error) semanticpb.SemanticError {
	switch {
	case errors.Is(err, semantic.ErrInvalid), errors.Is(err, embed.ErrEmpty), errors.Is(err, vectors.ErrInvalid):
		return semanticpb.SemanticError_SEMANTIC_ERROR_INVALID
	case errors.Is(err, embed.ErrBusy), errors.Is(err, embed.ErrClosed):
		return semanticpb.SemanticError_SEMANTIC_ERROR_BUSY
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return semanticpb.SemanticError_SEMANTIC_ERROR_LATE
	case errors.Is(err, vectors.ErrUnavailable):
		return semanticpb.SemanticError_SEMANTIC_ERROR_STORE
	}
	return semanticpb.SemanticError_SEMANTIC_ERROR_INFERENCE
}
