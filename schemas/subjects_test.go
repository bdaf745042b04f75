package schemas

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTokenEncodesWhatASubjectCannotHold(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"":              "_",
		"acme":          "acme",
		"a.b":           "a%2Eb",
		"a b*>":         "a%20b%2A%3E",
		"Agent_1-x":     "Agent_1-x",
		"\xff\x00é":     "%FF%00%C3%A9",
		"100%":          "100%25",
		"tenant/proj:1": "tenant%2Fproj%3A1",
	}
	for in, want := range cases {
		if got := Token(in); got != want {
			t.Errorf("Token(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestKeysTellShadowFromLive(t *testing.T) {
	t.Parallel()
	hash := []byte("0123456789abcdef and more")
	if got, want := CounterKey(false, "prompt", "agent tools", hash), "prompt.live.agent=20tools.MDEyMzQ1Njc4OWFiY2RlZg"; got != want {
		t.Errorf("CounterKey = %q, want %q", got, want)
	}
	if got, want := IncidentKey(true, "", "ab12"), "shadow._.ab12"; got != want {
		t.Errorf("IncidentKey = %q, want %q", got, want)
	}
}

func TestKeysNameWhatTheyHold(t *testing.T) {
	t.Parallel()
	hash := make([]byte, 32)
	for i := range hash {
		hash[i] = byte(i)
	}
	for got, want := range map[string]string{
		SessionKey(false, "p", hash):          "tool.live.p.AAECAwQFBgcICQoLDA0ODw",
		LimitKey(true, "p.1", "a rule", hash): "rule.shadow.p=2E1.a=20rule.AAECAwQFBgcICQoLDA0ODw",
		StreakKey(true, "p", hash):            "streak.shadow.p.AAECAwQFBgcICQoLDA0ODw",
		KeyHash([]byte{1}):                    "AQ",
		CounterPattern(true, "prompt", ""):    "prompt.shadow._.*",
		VectorKey("session", hash):            "sessions.AAECAwQFBgcICQoLDA0ODw",
		AnswerKey("ab"):                       "answer.ab",
		AnswerCallsKey("ab"):                  "calls.ab",
		AnswerAskerKey("ab"):                  "asker.ab",
		AnswerFinishedKey("ab"):               "settled.ab",
		DetectorSubject("one"):                "loop.check.one",
		Override{Action: OverrideBlock, Scope: ScopeTenant, Value: "a b"}.Key(): "block.tenant.a=20b",
	} {
		if got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	for name, want := range map[string]bool{"detector-1": true, "": false, "a.b": false, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false} {
		if IsDetectorName(name) != want {
			t.Errorf("IsDetectorName(%q) is %v", name, !want)
		}
	}
}

func TestOverridesReportEveryFault(t *testing.T) {
	t.Parallel()
	err := Override{Action: "allow", Scope: "model"}.Validate()
	if err == nil {
		t.Fatal("an override without anything is valid")
	}
	for _, want := range []string{`action is "allow"`, `scope is "model"`, "value is missing", "expires_at is missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := (Override{Action: OverrideExempt, Scope: ScopeCaller, Value: "x", ExpiresAt: time.Unix(1, 0)}).Validate(); err != nil {
		t.Error(err)
	}
}

// Distinct names never share a token, so that no policy or tenant can reach
// another's subject or key.
func TestTokensAreValidAndDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if a != b && a != "" && b != "" && a != "_" && b != "_" {
			if Token(a) == Token(b) || KeyToken(a) == KeyToken(b) {
				t.Fatalf("%q and %q share a token", a, b)
			}
		}
		if tok := Token(a); tok == "" || strings.ContainsAny(tok, ". *>\t\r\n\x00") {
			t.Fatalf("Token(%q) = %q is no subject token", a, tok)
		}
	})
}
