package policy_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/policy"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func mustDefault(t *testing.T, getenv func(string) string) *policy.Spec {
	t.Helper()
	b, err := policy.Default(getenv)
	if err != nil {
		t.Fatal(err)
	}
	return &b.Policies[0].Spec
}

func TestEnvironmentSetsTheDefaults(t *testing.T) {
	t.Parallel()
	p := mustDefault(t, env(
		"LOOP_GUARD_WINDOW_SECONDS", "90", "LOOP_GUARD_MAX_HITS", "7", "LOOP_GUARD_COOLDOWN_SECONDS", "0",
		"LOOP_SIMILARITY_THRESHOLD", "0.9", "LOOP_HISTORY_SIZE", "9", "LOOP_EMBEDDING_TTL", "120",
		"LOOP_EMBEDDING_SIDECAR_TIMEOUT", "80ms", "LOOP_INTERVENTION_MESSAGE", "Stop.", "LOOP_DETECTION_ENABLED", "true"))
	if got := [3]int{p.Prompt.WindowSeconds, p.Prompt.MaxHits, p.Prompt.CooldownSeconds}; got != [3]int{90, 7, 0} {
		t.Errorf("prompt: %v", got)
	}
	if s := p.Semantic; s.Threshold != 0.9 || s.HistorySize != 9 || s.TTLSeconds != 120 || s.BudgetMS != 80 {
		t.Errorf("semantic: %+v", s)
	}
	if p.Hint.Text != "Stop." {
		t.Errorf("hint: %q", p.Hint.Text)
	}
}

func TestEnvironmentDurationsMayBePlainNumbers(t *testing.T) {
	t.Parallel()
	s := mustDefault(t, env("LOOP_EMBEDDING_TTL", "1h", "LOOP_EMBEDDING_SIDECAR_TIMEOUT", "75")).Semantic
	if s.TTLSeconds != 3600 || s.BudgetMS != 75 {
		t.Errorf("semantic: %+v", s)
	}
}

func TestHistoryOfOneNeedsOneMatch(t *testing.T) {
	t.Parallel()
	if s := mustDefault(t, env("LOOP_HISTORY_SIZE", "1")).Semantic; s.MinMatches != 1 {
		t.Errorf("min_matches is %d", s.MinMatches)
	}
}

func TestEveryWrongVariableIsNamed(t *testing.T) {
	t.Parallel()
	wrong := []string{
		"LOOP_GUARD_WINDOW_SECONDS", "0", "LOOP_GUARD_MAX_HITS", "-1", "LOOP_GUARD_COOLDOWN_SECONDS", "soon",
		"LOOP_SIMILARITY_THRESHOLD", "95", "LOOP_HISTORY_SIZE", "1e3", "LOOP_EMBEDDING_TTL", "1ms",
		"LOOP_EMBEDDING_SIDECAR_TIMEOUT", "0", "LOOP_INTERVENTION_MESSAGE", strings.Repeat("x", 5000), "LOOP_DETECTION_ENABLED", "off-ish",
	}
	_, err := policy.Default(env(wrong...))
	if err == nil {
		t.Fatal("no error")
	}
	for i := 0; i < len(wrong); i += 2 {
		if !strings.Contains(err.Error(), wrong[i]+"=") {
			t.Errorf("%s is not named in:\n%v", wrong[i], err)
		}
	}
	for _, allowed := range []string{"an integer from 1 to 2592000", "a number from 0 to 1", "a duration such as 30s", "true or false"} {
		if !strings.Contains(err.Error(), allowed) {
			t.Errorf("%q is not said in:\n%v", allowed, err)
		}
	}
	if _, err := policy.Default(env("LOOP_SIMILARITY_THRESHOLD", "NaN")); err == nil {
		t.Error("NaN passed for a threshold")
	}
}
