package embedworker_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/semanticpb"
)

func TestOfflineHistoriesAgeByTheirClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)
	cfg := embedworker.DefaultConfig()
	cfg.Embedder = "lexical"
	o, err := embedworker.NewOffline(t.Context(), cfg, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}()
	ask := func(id string) *semanticpb.SemanticReply {
		return o.Answer(t.Context(), &semanticpb.SemanticRequest{
			RequestId: id, ScopeKey: "s", Threshold: 0.95, MinMatches: 1, HistorySize: 5, TtlSeconds: 60,
			Subject: &semanticpb.SemanticRequest_Text{Text: "Find out why the login page redirects twice."},
		})
	}
	if a := ask("1"); !a.GetJudged() || a.GetDetected() {
		t.Errorf("the first text: %v", a)
	}
	now = now.Add(59 * time.Second)
	if a := ask("2"); !a.GetDetected() || a.GetCompared() != 1 {
		t.Errorf("the same within its time: %v", a)
	}
	now = now.Add(61 * time.Second)
	if a := ask("3"); a.GetDetected() {
		t.Errorf("the same after its time: %v", a)
	}
	if a := o.Answer(t.Context(), &semanticpb.SemanticRequest{}); a.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_INVALID {
		t.Errorf("a request without a scope: %v", a)
	}
	cfg.Embedder = "none"
	if _, err := embedworker.NewOffline(t.Context(), cfg, time.Now, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("an embedder that there is not must be refused")
	}
}
