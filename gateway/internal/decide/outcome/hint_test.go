package outcome

import (
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/policy"
)

func TestHintsSayWhatWasFoundInWords(t *testing.T) {
	t.Parallel()
	for _, k := range finding.Catalogue() {
		f := &checkpb.Finding{Policy: "p", Detector: k.Detector, Rule: k.Rule, HitCount: 6, Threshold: 5, WindowSeconds: 60, Action: checkpb.Action_ACTION_HINT}
		want := f.Facts().Hint()
		if got := new(Case).hintText(&bundle.Policy{Hint: policy.DefaultSpec().Hint}, f, time.Time{}); k.Hint != "" && want == "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s %s: %q, want %q", k.Detector, k.Rule, got, want)
		}
	}
}

func TestHintSaysWhatRepeatsHowOftenAndSinceWhen(t *testing.T) {
	t.Parallel()
	own := policy.DefaultSpec().Hint
	own.Text = "Stop."
	read := []*checkpb.ToolCall{{Tool: "read", Call: []byte("0123456789abcdef")}}
	now := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	x := &Case{Evidence: evidence.Evidence{Check: &checkpb.Check{Watches: []*checkpb.ToolWatch{{Policy: "p", History: &checkpb.History{Items: []*checkpb.HistoryItem{
		{Human: []byte("0123456789abcdef")}, {Calls: read}, {Calls: read}, {Calls: read},
	}}}}}}}
	for name, c := range map[string]struct {
		hint policy.HintText
		f    *checkpb.Finding
		want string
	}{
		"an operator's words stand alone": {own, &checkpb.Finding{Policy: "p", Detector: finding.Semantic, Message: "the newest says"}, "Stop."},
		"a phrase becomes a sentence": {
			policy.DefaultSpec().Hint, &checkpb.Finding{Policy: "p", Detector: finding.Semantic, Message: "the newest message says again what was said"},
			"The newest message says again what was said. " + policy.DefaultHint,
		},
		"a tool": {
			policy.DefaultSpec().Hint, &checkpb.Finding{Policy: "p", Detector: finding.Tool, Rule: "repeat", Message: "The tool read was called 3 times. Try another."},
			"The tool read was called 3 times. Try another. The first time was 2 rounds ago.",
		},
		"a count": {
			policy.DefaultSpec().Hint, &checkpb.Finding{Policy: "p", Detector: finding.Prompt, HitCount: 4, WindowSeconds: 60, SinceMs: 30_000},
			"The same prompt came 4 times within 60 seconds. The first time was at 14:29:30 UTC. " + policy.DefaultHint,
		},
	} {
		if got := x.hintText(&bundle.Policy{ID: "p", Hint: c.hint}, c.f, now); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
}
