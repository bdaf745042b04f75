package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay"
	"github.com/unloop/unloop/deploy/replay/logs"
	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/schemas/record"
)

// run returns a run by a bundle, "" for the default policy.
func run(t *testing.T, bundle string) *replay.Run {
	t.Helper()
	file := ""
	if bundle != "" {
		file = filepath.Join(t.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, []byte(bundle), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := replay.New(t.Context(), replay.Config{Embedworker: lexical(), Policies: file, Pace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lexical compares texts without a model.
func lexical() embedworker.Config {
	cfg := embedworker.DefaultConfig()
	cfg.Embedder = "lexical"
	return cfg
}

// evaluate replays a recording without faulty entries.
func evaluate(t *testing.T, r *replay.Run, name string, text []byte) {
	t.Helper()
	for q, err := range logs.Open(bytes.NewReader(text)) {
		if err == nil {
			err = r.Request(t.Context(), name, &q)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// sessions are recorded sessions of honest agents, by file: those that
// UNLOOP_TEST_TRAJECTORIES names, else those beside the repository, else our own.
func sessions(t *testing.T) map[string][]byte {
	t.Helper()
	for _, folder := range []string{os.Getenv("UNLOOP_TEST_TRAJECTORIES"), "../../../shared/trajectories", "../e2e/testdata/trajectories"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || folder == "" || len(files) == 0 {
			continue
		}
		all := map[string][]byte{}
		for _, file := range files {
			if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	t.Fatal("no recorded sessions found, not even our own")
	return nil
}

func TestHonestSessionsAreReplayedWithoutAFinding(t *testing.T) {
	t.Parallel()
	r := run(t, "")
	all := sessions(t)
	for name, text := range all {
		evaluate(t, r, name, text)
	}
	report := r.Report()
	if report.Requests < len(all) || report.Sessions != len(all) || report.Actions["allow"] != report.Requests {
		t.Errorf("%d requests in %d sessions of %d files, done %v", report.Requests, report.Sessions, len(all), report.Actions)
	}
	if len(report.Incidents) > 0 {
		t.Errorf("first incident %+v", report.Incidents[0])
	}
}

// rounds lists where the rounds of tool calls of a session begin and end.
func rounds(t *testing.T, messages []json.RawMessage) [][2]int {
	t.Helper()
	var out [][2]int
	for i := range messages {
		var m struct {
			Role  string
			Calls []json.RawMessage `json:"tool_calls"`
		}
		if err := json.Unmarshal(messages[i], &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case len(m.Calls) > 0:
			out = append(out, [2]int{i, i + 1})
		case m.Role == "tool" && len(out) > 0 && out[len(out)-1][1] == i:
			out[len(out)-1][1] = i + 1
		}
	}
	return slices.DeleteFunc(out, func(r [2]int) bool { return r[1]-r[0] < 2 }) // never answered
}

func messagesOf(text []byte) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) == nil {
		return list
	}
	var object struct{ Messages []json.RawMessage }
	_ = json.Unmarshal(text, &object) // without messages, it has no rounds
	return object.Messages
}

func TestASessionThatRepeatsARoundIsHintedAtThreeAndStoppedAtFive(t *testing.T) {
	t.Parallel()
	tried := 0
	for name, text := range sessions(t) {
		messages := messagesOf(text)
		for _, at := range rounds(t, messages) {
			looping := slices.Clone(messages[:at[1]])
			for range 5 {
				looping = append(looping, messages[at[0]:at[1]]...)
			}
			looping = append(looping, json.RawMessage(`{"role":"assistant","content":"I give up."}`))
			session, err := json.Marshal(looping)
			if err != nil {
				t.Fatal(err)
			}
			r := run(t, "")
			evaluate(t, r, name, session)
			report := r.Report()
			if report.Actions["hint"] != 2 || report.Actions["reject"] != 2 || len(report.Incidents) != 1 {
				t.Fatalf("%s, round at message %d repeated: done %v, %d incidents; want hints at 3 and 4, rejects at 5 and 6",
					name, at[0], report.Actions, len(report.Incidents))
			}
			i := report.Incidents[0]
			if i.Saved.Requests != 2 || i.Requests != 4 || i.Count != 6 || len(i.Tools) == 0 || i.Why == "" || i.First.Request != i.Last.Request-3 {
				t.Errorf("%s: incident %+v", name, i)
			}
			if len(report.Flagged) != 1 || report.Flagged[0].Stopped != 2 || !strings.Contains(report.Flagged[0].Name, name) {
				t.Errorf("%s: flagged %+v", name, report.Flagged)
			}
			tried++
		}
	}
	if tried == 0 {
		t.Error("no session has a round of tool calls")
	}
}

// entry is a recorded chat request.
func entry(t *testing.T, at time.Time, session, prompt string, change func(*record.Record)) []byte {
	t.Helper()
	r := record.Record{
		Version: record.Version, Time: at, Caller: "c0ffee", Session: session, Method: "POST", Path: "/v1/chat/completions",
		Upstream: "openai", Model: "gpt-x", Body: json.RawMessage(fmt.Sprintf(`{"model":"gpt-x","messages":[{"role":"user","content":%q}]}`, prompt)),
		Status: 200, InputTokens: 1000, OutputTokens: 100,
	}
	if change != nil {
		change(&r)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return append(line, '\n')
}

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

const priced = `
bundle_version: 3
prices: {"gpt-*": {input_usd_per_million: 10, output_usd_per_million: 100}}
policies:
  - {id: main, spec: {prompt: {max_hits: 5, window_seconds: 60, cooldown_seconds: 30}}}
  - {id: careful, spec: {mode: shadow, prompt: {max_hits: 2, window_seconds: 60}}}
`

func TestALoopsCostIsWhatItsStoppedRequestsCost(t *testing.T) {
	t.Parallel()
	r := run(t, priced)
	var text []byte
	for i := range 9 {
		text = append(text, entry(t, noon.Add(time.Duration(i)*time.Second), "s", "again", nil)...)
	}
	evaluate(t, r, "day.jsonl", text)
	report := r.Report()
	if diff := cmp.Diff(replay.Cost{Requests: 4, InputTokens: 4000, OutputTokens: 400, USD: 0.08}, report.Saved); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if report.Spent.Requests != 9 || report.Spent.Unpriced != 0 || !report.From.Equal(noon) || !report.To.Equal(noon.Add(8*time.Second)) {
		t.Errorf("spent %+v from %v to %v", report.Spent, report.From, report.To)
	}
	var got []string
	for _, i := range report.Incidents {
		got = append(got, fmt.Sprint(i.Policy, " ", i.Mode, " ", i.Action, " ", i.First.Line, " ", i.Requests, " ", i.Saved.Requests))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"careful shadow reject 3 7 0", "main enforce reject 6 4 4"}, got); diff != "" {
		t.Errorf("incidents (-want +got):\n%s", diff)
	}
}

func TestTimeIsThatOfTheRecording(t *testing.T) {
	t.Parallel()
	r := run(t, "")
	var text []byte
	for i := range 20 { // more than five a minute never come, nor ten an hour
		text = append(text, entry(t, noon.Add(time.Duration(i)*10*time.Minute), "s", "again", nil)...)
	}
	evaluate(t, r, "day.jsonl", text)
	text = nil
	for i := range 3 {
		text = append(text, entry(t, noon.Add(-time.Duration(i)*time.Second), "t", fmt.Sprint(i), nil)...)
	}
	evaluate(t, r, "older.jsonl", text)
	if report := r.Report(); len(report.Incidents) != 0 || report.OutOfOrder != 3 {
		t.Errorf("%d incidents, %d out of order; want none, and the three of the older file", len(report.Incidents), report.OutOfOrder)
	}
}

func TestReplaysOfWhatTheUpstreamRefusedDoNotCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*record.Record)
		want   int
	}{
		"the upstream was overloaded": {func(r *record.Record) { r.Status = 529 }, 0},
		"the upstream answered":       {nil, 2},
		"Unloop had stopped it":       {func(r *record.Record) { r.Status, r.Action = 429, "reject" }, 2},
	} {
		r := run(t, "")
		for i := range 7 {
			evaluate(t, r, "f", entry(t, noon.Add(time.Duration(i)*time.Second), "s", "again", c.change))
		}
		if got := r.Report().Saved.Requests; got != c.want {
			t.Errorf("%s: %d would have been stopped, want %d", name, got, c.want)
		}
	}
}

func TestFilesDoNotShareSessionsThatHaveNoID(t *testing.T) {
	t.Parallel()
	session := []byte(`[{"role":"user","content":"go"},{"role":"assistant","content":"yes"},{"role":"user","content":"on"},{"role":"assistant","content":"ok"}]`)
	r := run(t, "")
	for i := range 8 {
		evaluate(t, r, fmt.Sprintf("%d.json", i), session)
	}
	if report := r.Report(); report.Sessions != 8 || len(report.Incidents) != 0 {
		t.Errorf("%d sessions, %d incidents; want 8 sessions hours apart", report.Sessions, len(report.Incidents))
	}
}

func TestCallersAndTenantsAreThoseOfTheRecording(t *testing.T) {
	t.Parallel()
	r := run(t, "")
	for i := range 12 {
		evaluate(t, r, "f", entry(t, noon.Add(time.Duration(i)*time.Second), "", "again", func(r *record.Record) {
			r.Caller, r.Tenant = fmt.Sprint("caller ", i%3), "acme"
		}))
	}
	if report := r.Report(); len(report.Incidents) != 0 {
		t.Errorf("three callers that ask four times each: %+v", report.Incidents[0])
	}
}

func TestWhatCannotBeJudgedIsCountedAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	r := run(t, `{bundle_version: 1, policies: [{id: a, spec: {selector: {pathPrefix: /v1/}, prompt: {}}}]}`)
	evaluate(t, r, "f", entry(t, noon, "", "hello", func(r *record.Record) { r.Path = "/other" }))
	q := logs.Request{Method: "NO METHOD", Path: "/v1/x"}
	if err := r.Request(t.Context(), "f", &q); err == nil {
		t.Error("a method with a space must be a fault")
	}
	_ = r.Unreadable(errors.New("line 3"))
	evaluate(t, r, "f", entry(t, noon, "", "hello", nil))
	if report := r.Report(); report.Unwatched != 1 || report.Unreadable != 2 || report.Requests != 2 || report.Actions["allow"] != 1 {
		t.Errorf("report %+v", report)
	}
}

func TestARunStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := logs.Request{Method: "POST", Path: "/v1/chat/completions", Body: []byte(`{"messages":[{"role":"user","content":"a"}]}`)}
	if err := run(t, "").Request(ctx, "f", &q); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestABundleThatCannotBeUsedIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := replay.New(t.Context(), replay.Config{Embedworker: lexical(), Policies: filepath.Join(t.TempDir(), "none.yaml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that there is no such file", err)
	}
}
