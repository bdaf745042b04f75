package schemas_test

import (
	"bytes"
	"maps"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// golden are messages as this version writes them, by file. A message that gets
// a new field gets a new file beside its old one.
func golden() map[string]proto.Message {
	all := firstGolden()
	maps.Copy(all, toolGolden())
	maps.Copy(all, limitGolden())
	maps.Copy(all, semanticGolden())
	maps.Copy(all, promptGolden())
	maps.Copy(all, partGolden())
	return all
}

// partGolden are those about answers in several parts.
func partGolden() map[string]proto.Message {
	return map[string]proto.Message{
		"check-batch-parts-1":    &checkpb.CheckBatch{BudgetMs: 50, Parts: true, Checks: []*checkpb.Check{{RequestId: "req_def456"}, {RequestId: "req_abc123"}}},
		"decision-batch-parts-1": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{HitCounts: []uint32{2}}}, Checks: []uint32{1}, More: true},
	}
}

// promptGolden are those about prompts that are counted in several ways.
func promptGolden() map[string]proto.Message {
	return map[string]proto.Message{
		"check-batch-price-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{Model: "gpt-4o-mini", InputTokens: 2500, Usd: new(0.000375)}}},
		"owed-1":              &checkpb.Owed{Caller: "c4", Body: []byte{1, 2}, Finding: &checkpb.Finding{Policy: "p", Action: checkpb.Action_ACTION_HINT}},
		"outcome-hit-1":       &checkpb.Outcome{Corrections: []*checkpb.Correction{{Delta: -2, Hit: "q6urq6ur"}}},
		"check-batch-home-1":  &checkpb.CheckBatch{Checks: []*checkpb.Check{{RequestId: "req_def456", Home: true}}},
		"check-batch-history-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{Counters: []*checkpb.Counter{{
			Policy: "agent-tools", Opening: &checkpb.Opening{Begin: 0xabab, Messages: 6, History: 0xfeed, Before: 0xbeef},
		}}}}},
		"check-batch-others-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{
			Exchange: &semanticpb.Exchange{Said: "Read main.go", Trace: &semanticpb.Trace{Digest: 0xfeed, Others: []uint64{0xbeef}}},
		}}},
		"check-batch-opening-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{Shared: true, Counters: []*checkpb.Counter{{
			Policy: "agent-tools", Opening: &checkpb.Opening{Begin: 0xabab, Messages: 2, First: true, Named: true},
		}}}}},
		"check-batch-hit-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{RequestId: "req_def456", Hit: "q6urq6ur"}}},
		"check-batch-prompt-1": &checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{{Counters: []*checkpb.Counter{{
			Policy: "agent-tools", Detector: "prompt", Fingerprint: goldenPrint, Parted: true,
			Together: &checkpb.Together{Fingerprint: goldenPrint, Threshold: 10, Steps: []*checkpb.Step{{At: 11, Action: checkpb.Action_ACTION_REJECT}}},
			SlowHits: 10, SlowSeconds: 3600, Rounds: 3, HintRounds: 3, Sample: true,
			StopRounds: 8, Complaint: true, Closed: true, Messages: 12,
		}}}}},
		"check-batch-trace-1": &checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{{
			RequestId: "req_def456", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}}},
		"check-batch-probe-1": &checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{{RequestId: "req_def456", Probe: true}}},
		"decision-batch-prompt-1": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{Findings: []*checkpb.Finding{{
			Policy: "agent-tools", Detector: "prompt", Fingerprint: goldenPrint, Action: checkpb.Action_ACTION_REJECT, Rule: "sessions-together",
			HitCount: 11, Threshold: 10, BlockedMs: 30_000, RetryAfterMs: 59_800, HitAgesMs: []uint32{0, 120, 200}, SinceMs: 200,
		}}}}},
	}
}

var (
	goldenPrint  = bytes.Repeat([]byte{0xab}, 32)
	goldenDigest = bytes.Repeat([]byte{0xcd}, 16)
)

// firstGolden are those of the first version.
func firstGolden() map[string]proto.Message {
	fp, digest := goldenPrint, goldenDigest
	finding := &checkpb.Finding{
		Policy: "agent-tools", Detector: "prompt", Fingerprint: fp, Action: checkpb.Action_ACTION_REJECT,
		HitCount: 6, Threshold: 5, WindowSeconds: 60, CooldownSeconds: 30, BlockedMs: 29_500, LoopId: "viIzp0jq26E8k6XTjdCptc",
	}
	counter := &checkpb.Counter{
		Policy: "agent-tools", Detector: "prompt", Fingerprint: fp, Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60,
		Threshold: 5, CooldownSeconds: 30, Steps: []*checkpb.Step{{At: 6, Action: checkpb.Action_ACTION_REJECT}},
	}
	return map[string]proto.Message{
		"check-batch-1": &checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{{
			RequestId: "req_def456", Model: "gpt-4o-mini", Bundle: "1-aacf370d", Counters: []*checkpb.Counter{counter},
			Identity: &checkpb.Identity{Tenant: "acme", Project: "proj_abc123", Caller: "c0ffee", Session: "5e55"},
			Hits:     2, Retry: true, Peek: true, InputTokens: 2500,
			Watches: []*checkpb.ToolWatch{{
				Policy: "agent-tools", Agent: fp, Shadow: true, Tool: []byte(`{"per_tool":[{"match":"read_*","block_threshold":9}]}`),
				History: &checkpb.History{Own: true, Before: digest, Items: []*checkpb.HistoryItem{
					{Human: digest}, {Calls: []*checkpb.ToolCall{{Tool: "read_file", Call: digest, Result: digest, Id: digest, Failed: true}}},
				}},
			}},
		}}},
		"check-batch-3": &checkpb.CheckBatch{BudgetMs: 50, PatienceMs: 1000, Checks: []*checkpb.Check{{RequestId: "req_def456"}}},
		"check-batch-2": &checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{{
			RequestId: "req_def456", Counters: []*checkpb.Counter{counter},
			Excerpt: &checkpb.Excerpt{Text: "Read main.go ⇒ package main", Policies: []string{"agent-tools"}},
		}}},
		"decision-batch-1": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{
			{Action: checkpb.Action_ACTION_REJECT, Findings: []*checkpb.Finding{finding}, HitCounts: []uint32{6}},
			{Error: "not counted"},
			{Action: checkpb.Action_ACTION_HINT, Findings: []*checkpb.Finding{{
				Policy: "agent-tools", Detector: "tool", Fingerprint: fp, Action: checkpb.Action_ACTION_HINT, Shadow: true, HitCount: 3, Threshold: 3,
				DelayMs: 300, Rule: "repeat", Tool: "read_file", Message: "read_file was called 3 times.", BackoffSeconds: 5,
			}}},
		}},
		"cooldown-1":        &checkpb.Cooldown{Finding: finding},
		"outcome-2":         &checkpb.Outcome{Counters: []*checkpb.Counter{counter}, Aborted: true},
		"outcome-1":         &checkpb.Outcome{Counters: []*checkpb.Counter{counter}},
		"release-request-1": &checkpb.ReleaseRequest{LoopId: "viIzp0jq26E8k6XTjdCptc"},
		"release-reply-1":   &checkpb.ReleaseReply{Error: "no open loop with this id", Released: []*checkpb.CounterRef{{Policy: "p", Detector: "prompt", Fingerprint: fp, Shadow: true}}},
		"release-reply-2":   &checkpb.ReleaseReply{Count: 1500},
		"forget-2":          &checkpb.Forget{LoopId: "viIzp0jq26E8k6XTjdCptc"},
		"handover-1":        &checkpb.Handover{Check: &checkpb.Check{RequestId: "req_def456"}, Outcome: &checkpb.Outcome{Text: digest}, BudgetMs: 45},
		"handover-reply-1":  &checkpb.HandoverReply{Verdict: []byte(`{"Count":3}`), Error: "not counted"},
		"forget-1":          &checkpb.Forget{Counters: []*checkpb.CounterRef{{Policy: "p", Detector: "request", Fingerprint: fp}}},
	}
}

// toolGolden are about tool calls.
func toolGolden() map[string]proto.Message {
	fp, digest := goldenPrint, goldenDigest
	call := &checkpb.ToolCall{
		Tool: "read_file", Call: digest, Result: digest, ErrorClass: digest, Id: digest, Failed: true, Poll: true, NotOffered: true, Ours: true, Provided: true,
	}
	watch := &checkpb.ToolWatch{
		Policy: "agent-tools", Agent: fp, Tool: []byte(`{"warn_threshold":4}`), Cycle: []byte(`{"max_period":4}`),
		BlockAnswer: checkpb.Answer_ANSWER_SYNTHETIC, CycleAnswer: checkpb.Answer_ANSWER_SYNTHETIC,
		History: &checkpb.History{Delta: true, Before: digest, Items: []*checkpb.HistoryItem{{Human: digest, Summary: true, Closed: true}, {Calls: []*checkpb.ToolCall{call}}}},
	}
	run := &checkpb.ToolWatch{Policy: "agent-tools", Agent: fp, Shadow: true, Tool: []byte(`{}`), Run: &checkpb.ToolRun{Call: call, Done: true}}
	report := &checkpb.ToolReport{
		Policy: "agent-tools", Shadow: true, Streak: 4, Repeats: 6, WarnThreshold: 3, BlockThreshold: 5, Poll: true, BackoffSeconds: 10,
		Calls: 40, Total: 50, Unique: 20, Blocked: 2, MostRepeated: "read_file", MostRepeatedCount: 6, Broken: true,
	}
	return map[string]proto.Message{
		"check-batch-tools-1": &checkpb.CheckBatch{BudgetMs: 50, Checks: []*checkpb.Check{
			{RequestId: "req_def456", Asked: true, Idempotency: "1de4", Explain: true, Watches: []*checkpb.ToolWatch{watch, run}},
			{RequestId: "req_abc123", Counters: []*checkpb.Counter{{Policy: "agent-tools", Detector: "request", Fingerprint: fp, Shadow: true}}},
		}},
		"decision-batch-tools-1": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{
			Action: checkpb.Action_ACTION_REJECT, HitCounts: []uint32{5}, ToolReports: []*checkpb.ToolReport{report},
			Findings: []*checkpb.Finding{{
				Policy: "agent-tools", Detector: "tool", Fingerprint: fp, Action: checkpb.Action_ACTION_REJECT, HitCount: 5, Threshold: 5, Rule: "repeat",
				Tool: "read_file", Message: "read_file was called 5 times.", Answer: checkpb.Answer_ANSWER_SYNTHETIC,
			}},
		}}},
		"check-batch-tools-2": &checkpb.CheckBatch{Checks: []*checkpb.Check{{RequestId: "req_def456", Watches: []*checkpb.ToolWatch{{
			Policy: "agent-tools", Agent: fp, Cycle: []byte(`{"escalate":3}`),
			History: &checkpb.History{Items: []*checkpb.HistoryItem{{Calls: []*checkpb.ToolCall{{Tool: "bash", Call: digest, Loose: digest, Soft: true, Empty: true, Wait: true, Once: true, Plain: true}}}}},
		}}}}},
		"check-batch-tools-3": &checkpb.CheckBatch{Checks: []*checkpb.Check{{Watches: []*checkpb.ToolWatch{{
			Policy: "agent-tools", Agent: fp, History: &checkpb.History{Items: []*checkpb.HistoryItem{{Calls: []*checkpb.ToolCall{{Tool: "list_files", Call: digest, Look: true}}}}},
		}}}}},
		"check-batch-tools-4": &checkpb.CheckBatch{Checks: []*checkpb.Check{{Watches: []*checkpb.ToolWatch{{
			Policy: "agent-tools", Agent: fp, History: &checkpb.History{Items: []*checkpb.HistoryItem{{Calls: []*checkpb.ToolCall{{Tool: "read_file", Call: digest, Retold: true}}}}},
		}}}}},
		"check-batch-tools-5": &checkpb.CheckBatch{Checks: []*checkpb.Check{{Asked: true, Watches: []*checkpb.ToolWatch{{
			Policy: "agent-tools", Agent: fp, Run: &checkpb.ToolRun{Call: &checkpb.ToolCall{Tool: "read_file", Call: digest}, Done: true, Canceled: true},
		}}}}},
		"answer-calls-1": &checkpb.AnswerCalls{Calls: []*checkpb.ToolCall{{Tool: "read_file", Call: digest, Id: digest, Poll: true}}},
		"answer-asker-2": &checkpb.AnswerAsker{Caller: "c0ffee", ReservedAt: 1_779_460_200_000, Reserved: []*checkpb.Reservation{{
			Limit: &checkpb.Limit{Policy: "agent-tools", Rule: "spend", Key: goldenPrint, Cost: 0.03, Estimated: true}, Input: 0.25, Cached: 0.125, Output: 2,
		}}},
		"answer-asker-1": &checkpb.AnswerAsker{
			Caller: "c0ffee", Conversation: "0123456789abcdef0123456789abcdef", Referable: true, Open: []*checkpb.ToolCall{{Tool: "read_file", Call: digest, Id: digest}},
		},
	}
}

// limitGolden are about rules.
func limitGolden() map[string]proto.Message {
	bucket := &checkpb.Limit{
		Policy: "agent-tools", Rule: "base-rps", Key: goldenPrint, Shadow: true, Cost: 1.5, Oversized: true, Bucket: &checkpb.Bucket{Rate: 20, Capacity: 40},
	}
	budget := &checkpb.Limit{
		Policy: "agent-tools", Rule: "spend", Key: goldenPrint, Cost: 0.03, Estimated: true,
		Budget: &checkpb.Budget{Amount: 5, PeriodSeconds: 86_400, Stages: []*checkpb.Stage{
			{Percent: 80, Action: checkpb.Action_ACTION_THROTTLE, DelayMs: 500}, {Percent: 100, Action: checkpb.Action_ACTION_REJECT},
		}},
	}
	return map[string]proto.Message{
		"check-batch-limits-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{RequestId: "req_def456", Limits: []*checkpb.Limit{bucket, budget}}}},
		"decision-batch-limits-1": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{
			Action: checkpb.Action_ACTION_REJECT, Limits: []*checkpb.LimitVerdict{{
				Action: checkpb.Action_ACTION_THROTTLE, Limit: 5, Remaining: 0.5, ResetMs: 3_600_000, RetryAfterMs: 60_000, DelayMs: 500, WindowSeconds: 86_400, Taken: true,
			}},
		}}},
		"check-batch-limits-2": &checkpb.CheckBatch{Checks: []*checkpb.Check{{RequestId: "req_def456", Asked: true, Limits: []*checkpb.Limit{
			{Policy: "agent-tools", Rule: "weekly", Key: goldenPrint, Cost: 1, Budget: &checkpb.Budget{Amount: 5, PeriodSeconds: 604_800, OffsetSeconds: 345_600}},
			{Policy: "agent-tools", Rule: "circuit_breaker", Key: goldenPrint, Cost: 1, Breaker: &checkpb.Breaker{Threshold: 1000, ResetSeconds: 600}},
		}}}},
		"decision-batch-limits-2": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{Limits: []*checkpb.LimitVerdict{{
			Action: checkpb.Action_ACTION_REJECT, Exceeded: checkpb.Exceeded_EXCEEDED_BREAKER, LoopId: "viIzp0jq26E8k6XTjdCptc",
		}}}}},
		"outcome-limits-2": &checkpb.Outcome{Corrections: []*checkpb.Correction{{Limit: budget, Delta: -0.03, RequestId: "req_def456"}}},
		"outcome-limits-1": &checkpb.Outcome{Corrections: []*checkpb.Correction{{Limit: budget, Delta: -0.01, AgeMs: 1200}}},
	}
}

// semanticGolden are about what texts mean.
func semanticGolden() map[string]proto.Message {
	exchange := &semanticpb.Exchange{Said: "Read main.go again", Answered: "package main"}
	trace := &semanticpb.Trace{Sentences: []byte{2, 0xef, 0xbe, 0xad}, Digest: 0xfeed, Earlier: []uint64{0xbeef}}
	alike := &semanticpb.Exchange{
		Said: "Read main.go again", Answered: "package main", Trace: &semanticpb.Trace{Digest: 0xfeed, Earlier: []uint64{0xbeef}, Details: new(uint64(0xd00d)), Further: []uint64{0xcafe}},
		Alike: []*semanticpb.EarlierExchange{{Said: "Read main.go", Answered: "package main", Digest: 0xbeef}},
	}
	return map[string]proto.Message{
		"check-batch-semantics-1": &checkpb.CheckBatch{Checks: []*checkpb.Check{{
			RequestId: "req_def456", Exchange: exchange, Semantics: []*checkpb.SemanticWatch{{
				Policy: "agent-tools", Shadow: true, Scope: goldenPrint, Params: []byte(`{"scope":"tenant","deferred":true}`),
			}},
		}}},
		"decision-batch-semantics-1": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{
			Action: checkpb.Action_ACTION_HINT, Findings: []*checkpb.Finding{{Policy: "agent-tools", Detector: "semantic", Action: checkpb.Action_ACTION_HINT, Similarity: 0.97}},
		}}},
		"semantic-request-1": &semanticpb.SemanticRequest{
			RequestId: "req_def456", ScopeKind: semanticpb.ScopeKind_SCOPE_KIND_SESSION, ScopeKey: "5e55", Subject: &semanticpb.SemanticRequest_Exchange{Exchange: exchange},
			Threshold: 0.95, MinMatches: 2, HistorySize: 5, TtlSeconds: 3600, MinWords: 4, StoreText: true, BudgetMs: 50, Peek: true,
		},
		"semantic-request-text-1": &semanticpb.SemanticRequest{
			RequestId: "req_def456", ScopeKind: semanticpb.ScopeKind_SCOPE_KIND_CALLER, ScopeKey: "c0ffee", Subject: &semanticpb.SemanticRequest_Text{Text: "again"},
			Threshold: 0.95, SourceRule: true,
		},
		"check-batch-semantics-2": &checkpb.CheckBatch{Checks: []*checkpb.Check{{
			RequestId: "req_def456", Exchange: &semanticpb.Exchange{Answered: "package main", Trace: trace}, Semantics: []*checkpb.SemanticWatch{{
				Policy: "agent-tools", Scope: goldenPrint, Compare: semanticpb.Compare_COMPARE_SENTENCES, LeaveIdentical: true, HintOnly: true, Turned: true,
			}},
		}}},
		"decision-batch-semantics-2": &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{SemanticMissed: true}}},
		"decision-batch-retry-1":     &checkpb.DecisionBatch{Decisions: []*checkpb.Decision{{RetryAfterMs: 25_000, Lasting: true}}},
		"semantic-request-3": &semanticpb.SemanticRequest{
			Subject: &semanticpb.SemanticRequest_Text{Text: "again"}, Trace: trace,
			Compare: semanticpb.Compare_COMPARE_OWN_HISTORY, LeaveIdentical: true, UsualThreshold: true,
		},
		"semantic-request-lazy-1": &semanticpb.SemanticRequest{Lazy: true, Subject: &semanticpb.SemanticRequest_Exchange{Exchange: alike}},
		"check-batch-semantics-3": &checkpb.CheckBatch{Checks: []*checkpb.Check{{
			RequestId: "req_def456", Exchange: alike, Semantics: []*checkpb.SemanticWatch{{Policy: "agent-tools", Scope: goldenPrint, Lazy: true}},
		}}},
		"semantic-reply-lazy-1": &semanticpb.SemanticReply{Judged: true, Compared: 5, Embedded: 2},
		"semantic-reply-3":      &semanticpb.SemanticReply{Judged: true, Detected: true, Repeats: true},
		"vector-history-2":      &semanticpb.VectorHistory{Entries: []*semanticpb.VectorEntry{{Sentences: trace.GetSentences(), Digest: 0xfeed}}},
		"semantic-request-begun-1": &semanticpb.SemanticRequest{Subject: &semanticpb.SemanticRequest_Exchange{Exchange: &semanticpb.Exchange{
			Answered: "read the file", Trace: &semanticpb.Trace{Sentences: []byte{3, 0xef, 0xbe, 0xad}, Beginnings: []byte{1, 2, 3, 4, 2, 6, 7, 8}},
		}}},
		"semantic-request-2": &semanticpb.SemanticRequest{RequestId: "0tq26E8k6XTjdCptcviIzp", Replaces: "asked.5f2b1d0c9e8a7b6c."},
		"semantic-reply-2":   &semanticpb.SemanticReply{Judged: true, Replaced: true},
		"outcome-semantics-1": &checkpb.Outcome{Text: goldenPrint[:16], Semantics: []*checkpb.SemanticWatch{{
			Policy: "agent-tools", Scope: goldenPrint, Params: []byte(`{"ttl_seconds":60}`),
		}}},
		"semantic-reply-1": &semanticpb.SemanticReply{
			Judged: true, Detected: true, MaxSimilarity: 0.97, Compared: 5, Embedder: "lexical-1",
			Matches: []*semanticpb.SemanticMatch{{Similarity: 0.97, RequestId: "req_abc123", AgeMs: 1500, Text: "again"}},
		},
		"semantic-reply-error-1": &semanticpb.SemanticReply{Error: semanticpb.SemanticError_SEMANTIC_ERROR_LATE, ErrorMessage: "budget of 50ms is over"},
		"vector-history-3": &semanticpb.VectorHistory{
			Entries: []*semanticpb.VectorEntry{{RequestId: "req_abc123", Quantised: [][]byte{{1, 2, 76, 101}, {}}}}, Older: []*semanticpb.VectorPart{{Slot: 3, Sequence: 4711}},
			Slot: 2,
		},
		"semantic-request-streak-1": &semanticpb.SemanticRequest{ScopeKey: "5e55", TtlSeconds: 3600, StreakFollows: true},
		"semantic-reply-streak-1":   &semanticpb.SemanticReply{Judged: true, Compared: 5, Streak: semanticpb.Streak_STREAK_NONE},
		"vector-history-streak-1":   &semanticpb.VectorHistory{Older: []*semanticpb.VectorPart{{Slot: 3, Sequence: 4711}}, Slot: 2, StreakUntilMs: 1_767_229_260_000},
		"vector-history-1": &semanticpb.VectorHistory{Entries: []*semanticpb.VectorEntry{{
			RequestId: "req_abc123", StoredMs: 1_767_225_600_000, ExpiresMs: 1_767_229_200_000, Quantised: [][]byte{{1, 2, 76, 101}, {}}, Marks: 0xfeed, Text: "again",
		}}},
	}
}

// Whoever adds a message or a field to the contract writes down what it looks like.
func TestEveryFieldOnTheWireIsInAGoldenMessage(t *testing.T) {
	t.Parallel()
	seen := map[protoreflect.FullName]bool{}
	for _, message := range golden() {
		note(message.ProtoReflect(), seen)
	}
	for _, file := range []protoreflect.FileDescriptor{checkpb.File_unloop_check_v1_check_proto, semanticpb.File_unloop_semantic_v1_semantic_proto} {
		for i := range file.Messages().Len() {
			message := file.Messages().Get(i)
			if !seen[message.FullName()] {
				t.Errorf("no golden message has %s", message.FullName())
			}
			for j := range message.Fields().Len() {
				if field := message.Fields().Get(j); !seen[field.FullName()] {
					t.Errorf("no golden message sets %s", field.FullName())
				}
			}
		}
	}
}

// note marks a message and all that is set in it, at any depth.
func note(message protoreflect.Message, seen map[protoreflect.FullName]bool) {
	seen[message.Descriptor().FullName()] = true
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		seen[field.FullName()] = true
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				note(value.List().Get(i).Message(), seen)
			}
		default:
			note(value.Message(), seen)
		}
		return true
	})
}
