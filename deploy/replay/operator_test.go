package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/record"
)

// overridden is a run by the default policy under overrides.
func overridden(t *testing.T, all ...schemas.Override) *replay.Run {
	t.Helper()
	r, err := replay.New(t.Context(), replay.Config{Embedworker: lexical(), Pace: time.Second, Overrides: append([]schemas.Override{}, all...)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// minutes are requests a minute apart, each of another prompt.
func minutes(t *testing.T, r *replay.Run, n int, change func(*record.Record)) {
	t.Helper()
	for i := range n {
		evaluate(t, r, "f", entry(t, noon.Add(time.Duration(i)*time.Minute), "", fmt.Sprint("prompt ", i), change))
	}
}

func TestOverridesHoldFromWhenTheyWereMadeUntilTheyEnd(t *testing.T) {
	t.Parallel()
	span := func(action schemas.OverrideAction, from, to time.Duration) schemas.Override {
		return schemas.Override{Action: action, Scope: schemas.ScopeCaller, Value: "c0ffee", Reason: "runaway", CreatedAt: noon.Add(from), ExpiresAt: noon.Add(to)}
	}
	r := overridden(t, span(schemas.OverrideBlock, 2*time.Minute, 4*time.Minute), span(schemas.OverrideExempt, 5*time.Minute, 6*time.Minute),
		span(schemas.OverrideBlock, 8*time.Minute, time.Hour))
	minutes(t, r, 10, nil)
	report := r.Report()
	if diff := cmp.Diff(map[string]int{"allow": 5, "refuse": 4, "exempt": 1}, report.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if len(report.Operator) != 2 || report.Operator[0].Reason != "runaway" || report.Operator[0].First.Line != 1 || report.Operator[0].Cost.Requests != 4 {
		t.Errorf("operator %+v", report.Operator)
	}
}

func TestOverridesOfDerivedSessionsFollowTheirRecordedHash(t *testing.T) {
	t.Parallel()
	r := overridden(t, schemas.Override{Action: schemas.OverrideBlock, Scope: schemas.ScopeSession, Value: "d1", ExpiresAt: noon.Add(time.Hour)})
	minutes(t, r, 4, func(r *record.Record) { r.DerivedSession = "d1" })
	minutes(t, r, 4, func(r *record.Record) { r.DerivedSession = "d2" })
	if got := r.Report().Actions["refuse"]; got != 4 {
		t.Errorf("%d are refused, want the four of the blocked session", got)
	}
}

func TestKillSwitchesEndByTheRecordingsTime(t *testing.T) {
	t.Parallel()
	r := run(t, `
bundle_version: 1
kill_switches: [{scope_key: caller, scope_value: c0ffee, reason: unpaid, expires_at: 2026-05-22T12:03:00Z}]
policies: [{id: p, spec: {selector: {caller: c0ffee}, prompt: {max_hits: 5}}}]
`)
	minutes(t, r, 5, nil)
	report := r.Report()
	if diff := cmp.Diff(map[string]int{"allow": 2, "refuse": 3}, report.Actions); diff != "" || report.Unwatched > 0 {
		t.Errorf("%d unwatched, actions (-want +got):\n%s", report.Unwatched, diff)
	}
}

func TestWhatOperatorsDidIsTakenFromTheRecordingUnlessSaid(t *testing.T) {
	t.Parallel()
	for did, want := range map[string]string{record.Blocked: "refuse", record.Exempted: "exempt", record.KillSwitch: "allow"} {
		change := func(r *record.Record) { r.Operator = did }
		r := run(t, "")
		minutes(t, r, 1, change)
		if got := r.Report().Actions; got[want] != 1 {
			t.Errorf("%s: %v, want %s", did, got, want)
		}
		r = overridden(t)
		minutes(t, r, 1, change)
		if got := r.Report().Actions; got["allow"] != 1 {
			t.Errorf("%s, with overrides given: %v, want allow", did, got)
		}
	}
}

// Reservations are corrected by the costs of answers, so that as many requests pass.
func TestAnswersCorrectTheEstimatesOfRules(t *testing.T) {
	t.Parallel()
	const bundle = `
bundle_version: 1
policies:
  - id: p
    spec:
      rules: [{name: tpm, limit_keys: [caller], algorithm: token_bucket_llm,
               algorithm_config: {tokens_per_minute: 1000, default_max_completion_tokens: 900}}]
`
	for name, c := range map[string]struct {
		change func(*record.Record)
		answer string
		want   int
	}{
		"cheap answers":               {nil, `"status":200,"input_tokens":1,"output_tokens":1`, 0},
		"dear answers":                {nil, `"status":200,"input_tokens":1,"output_tokens":999`, 3},
		"failed calls":                {nil, `"status":500`, 0},
		"answers that do not say":     {nil, `"status":200`, 3},
		"cheap answers, as version 1": {func(r *record.Record) { r.Version, r.Status, r.InputTokens, r.OutputTokens = 1, 200, 1, 1 }, "", 0},
	} {
		r := run(t, bundle)
		for i := range 4 {
			at := noon.Add(time.Duration(i) * time.Second)
			text := entry(t, at, "", fmt.Sprint("prompt ", i), func(r *record.Record) {
				r.ID, r.Status, r.InputTokens, r.OutputTokens = fmt.Sprint("q", i), 0, 0, 0
				if c.change != nil {
					c.change(r)
				}
			})
			if c.answer != "" {
				text = fmt.Appendf(text, `{"unloop":2,"answer_to":"q%d","time":%q,%s}`+"\n", i, at.Add(time.Millisecond).Format(time.RFC3339Nano), c.answer)
			}
			evaluate(t, r, "f", text)
		}
		if got := r.Report().Limited; got != c.want {
			t.Errorf("%s: %d are limited, want %d", name, got, c.want)
		}
	}
}

func TestAnswersThatBelongToNothingChangeNothing(t *testing.T) {
	t.Parallel()
	r := run(t, "")
	evaluate(t, r, "f", []byte(`{"unloop":2,"answer_to":"nobody","time":"2026-05-22T12:00:00Z","input_tokens":5}`))
	if report := r.Report(); report.Requests != 0 || report.Spent.Requests != 0 || report.Files != 0 {
		t.Errorf("report %+v", report)
	}
}

func TestAFailedCallsAnswerExcusesItsReplay(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{200: 2, 503: 0} {
		r := run(t, "")
		for i := range 7 {
			at := noon.Add(time.Duration(i) * time.Second)
			text := entry(t, at, "s", "again", func(r *record.Record) { r.ID, r.Status = fmt.Sprint("q", i), 0 })
			evaluate(t, r, "f", fmt.Appendf(text, `{"unloop":2,"answer_to":"q%d","time":%q,"status":%d}`+"\n", i, at.Format(time.RFC3339Nano), status))
		}
		if got := r.Report().Actions["reject"]; got != want {
			t.Errorf("status %d: %d are stopped, want %d", status, got, want)
		}
	}
}
