package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/client"
)

// runs returns what asks about tool calls of one session.
func runs(t *testing.T, url, session string) func(client.ToolCall) *client.ToolDecision {
	c, err := client.New(url, client.WithAPIKey("sk-runner"))
	if err != nil {
		t.Fatal(err)
	}
	return func(call client.ToolCall) *client.ToolDecision {
		t.Helper()
		call.Session = session
		d, err := c.CheckTool(t.Context(), call)
		if loop := new(client.LoopDetectedError); err != nil && !errors.As(err, &loop) {
			t.Fatalf("%s: %v", call.Tool, err)
		}
		return d
	}
}

func asJSON(s string) json.RawMessage { return json.RawMessage(s) }

func TestToolRunnersCallIsWarnedOfThenBlocked(t *testing.T) {
	t.Parallel()
	ask := runs(t, start(t, echo(t)).URL(), "s1")
	var got []string
	var last *client.ToolDecision
	for _, args := range []string{`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1}`, `"{\"a\": 1, \"b\": [2]}"`, `{ "a":1e0, "b":[2] }`, `{"a":1,"b":[2]}`} {
		last = ask(client.ToolCall{Tool: "read", Arguments: asJSON(args)})
		got = append(got, fmt.Sprint(last.Action, " ", last.Counts.Streak))
	}
	if diff := cmp.Diff([]string{"allow 1", "allow 2", "warn 3", "warn 4", "block 5"}, got); diff != "" {
		t.Errorf("one call in five spellings (-want +got):\n%s", diff)
	}
	want := client.ToolCounts{Streak: 5, Repeats: 5, WarnThreshold: 3, BlockThreshold: 5, Calls: 5, Total: 5, Unique: 1, Blocked: 1, MostRepeated: "read", MostRepeatedCount: 5}
	if diff := cmp.Diff(want, last.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if last.Reason != client.ReasonLoop || !strings.Contains(last.Message, "read was called 5 times") || last.LoopID == "" || last.RequestID == "" || len(last.Findings) == 0 {
		t.Errorf("decision %+v", last)
	}
	if d := ask(client.ToolCall{Tool: "read", Arguments: asJSON(`{"a":2}`)}); d.Action != "allow" {
		t.Errorf("another call: %+v", d)
	}
}

// A tool runner gives the model the message in place of the result, and may report
// it as the result.
func TestToolRunnersBlockStandsWhenItsMessageComesBackAsTheResult(t *testing.T) {
	t.Parallel()
	ask := runs(t, start(t, echo(t)).URL(), "s1")
	read := client.ToolCall{Tool: "read"}
	for range 4 {
		ask(read)
	}
	for range 3 {
		d := ask(read)
		if d.Action != "block" || !strings.HasPrefix(d.Message, "recursive_loop_detected: The tool read ") {
			t.Fatalf("decision %+v; want a block that is known as Unloop's", d)
		}
		text, err := json.Marshal(d.Message)
		if err != nil {
			t.Fatal(err)
		}
		if r := ask(client.ToolCall{Tool: "read", Result: text}); r.Action != "block" || r.Counts.Streak != d.Counts.Streak {
			t.Errorf("reported: %+v; want what stood before", r)
		}
	}
}

func TestToolRunnersSessionsAndCallersAreApart(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	ask, other := runs(t, url, "s1"), runs(t, url, "s2")
	for range 6 {
		ask(client.ToolCall{Tool: "read"})
	}
	if d := other(client.ToolCall{Tool: "read"}); d.Action != "allow" || d.Counts.Streak != 1 {
		t.Errorf("another session: %+v", d)
	}
	c, err := client.New(url, client.WithAPIKey("sk-another"))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := c.CheckTool(t.Context(), client.ToolCall{Session: "s1", Tool: "read"}); err != nil || d.Counts.Total != 1 {
		t.Errorf("another caller's session of the same name: %+v, %v", d, err)
	}
}

// A call that was allowed and is not made counts no longer; one that is neither made nor given back
// stays counted, as one without a result.
func TestLeasesCountOnlyWhatIsMade(t *testing.T) {
	t.Parallel()
	c, err := client.New(start(t, echo(t)).URL(), client.WithAPIKey("sk-one"))
	if err != nil {
		t.Fatal(err)
	}
	run := c.Run(client.ToolCall{Session: "s"}, func(err error) { t.Error(err) })
	take := func() *client.Lease {
		t.Helper()
		lease, err := run.Lease(t.Context(), "read", map[string]string{"path": "a"})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	for range 9 {
		lease := take()
		lease.Cancel(t.Context())
		lease.Done(t.Context(), "the text of a")
	}
	for n := 1; n <= 3; n++ {
		lease := take()
		lease.Done(t.Context(), "the text of a")
		if lease.Decision.Counts.Streak != n {
			t.Errorf("call %d: %+v", n, lease.Decision.Counts)
		}
	}
	take() // is never settled
	_, err = run.Lease(t.Context(), "read", map[string]string{"path": "a"})
	if loop := new(client.LoopDetectedError); !errors.As(err, &loop) || loop.HitCount != 5 {
		t.Errorf("the fifth call: %v", err)
	}
}

func TestToolResultsTellProgressFromCircles(t *testing.T) {
	t.Parallel()
	ask := runs(t, start(t, echo(t)).URL(), "s1")
	for i := range 8 {
		if d := ask(client.ToolCall{Tool: "page", Arguments: asJSON("{}")}); d.Action != "allow" {
			t.Fatalf("call %d that always brings something new: %+v", i+1, d)
		}
		ask(client.ToolCall{Tool: "page", Arguments: asJSON("{}"), Result: asJSON(fmt.Sprintf(`{"items":[%d]}`, i))})
	}
	var got []string
	for i := range 5 { // each result has another time in it, and says the same
		got = append(got, ask(client.ToolCall{Tool: "look", Arguments: asJSON("{}")}).Action)
		ask(client.ToolCall{Tool: "look", Arguments: asJSON("{}"), Result: asJSON(fmt.Sprintf(`"2026-05-22T12:00:%02dZ nothing"`, i))})
	}
	if diff := cmp.Diff([]string{"allow", "allow", "warn", "warn", "block"}, got); diff != "" {
		t.Errorf("calls that bring the same (-want +got):\n%s", diff)
	}
}

func TestToolErrorsAreKnownByTheirMarkOrTheirText(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	yes, no := true, false
	for name, c := range map[string]struct {
		isError *bool
		want    string
	}{"by its text": {nil, "same-error"}, "by its mark": {&yes, "same-error"}, "marked as none": {&no, ""}} {
		ask := runs(t, url, name)
		rule := ""
		for i := range 5 {
			args := asJSON(fmt.Sprintf(`{"path":"f%d"}`, i))
			ask(client.ToolCall{Tool: "open", Arguments: args})
			d := ask(client.ToolCall{Tool: "open", Arguments: args, Result: asJSON(`"Error: disk is full"`), IsError: c.isError})
			for _, f := range d.Findings {
				if f.Rule == "same-error" {
					rule = f.Rule
				}
			}
		}
		if rule != c.want {
			t.Errorf("%s: found %q, want %q", name, rule, c.want)
		}
	}
}

func TestToolPollsAreToldHowLongToWait(t *testing.T) {
	t.Parallel()
	ask := runs(t, start(t, echo(t)).URL(), "s1")
	poll := client.ToolCall{Tool: "bash", Arguments: asJSON(`{"command":"docker ps"}`)}
	var got []string
	for range 9 {
		d := ask(poll)
		got = append(got, fmt.Sprint(d.Action, " ", d.BackoffSeconds))
	}
	want := []string{"allow 0", "allow 5", "allow 10", "allow 30", "allow 60", "allow 60", "allow 60", "allow 60", "warn 60"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a poll (-want +got):\n%s", diff)
	}
}

func TestToolPeekAndExplanationCountNothing(t *testing.T) {
	t.Parallel()
	ask := runs(t, start(t, echo(t)).URL(), "s1")
	for range 4 {
		ask(client.ToolCall{Tool: "read"})
	}
	for range 3 {
		if d := ask(client.ToolCall{Tool: "read", Peek: true}); d.Action != "block" || d.Counts.Streak != 5 {
			t.Fatalf("peek: %+v; want what the fifth call would get", d)
		}
		if d := ask(client.ToolCall{Explain: true}); d.Counts.Total != 4 || len(d.Findings) == 0 || d.Findings[0].Message == "" {
			t.Fatalf("explanation: %+v", d)
		}
	}
}

func TestToolPolicyDecides(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "p.yaml")
	text := `{bundle_version: 1, policies: [
		{id: runners, spec: {selector: {pathPrefix: /tools/, tenant: acme}, tool: {warn_threshold: 1, block_threshold: 2, block_action: break, exempt: [sleep]}}},
		{id: watched, spec: {mode: shadow, selector: {pathPrefix: /shadow/}, tool: {warn_threshold: 1, block_threshold: 2}}}]}`
	if err := os.WriteFile(bundle, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	url := start(t, echo(t), func(c *system.Config) { c.Gateway.Policies = bundle }).URL()
	ask := runs(t, url, "s1")
	act := func(call client.ToolCall) (got []string) {
		for range 3 {
			got = append(got, ask(call).Action)
		}
		return got
	}
	for name, c := range map[string]struct {
		call client.ToolCall
		want []string
	}{
		"by the policy":      {client.ToolCall{Tool: "read", Path: "/tools/run", Tenant: "acme"}, []string{"warn", "break", "break"}},
		"another tenant":     {client.ToolCall{Tool: "read", Path: "/tools/run", Tenant: "other"}, []string{"allow", "allow", "allow"}},
		"another path":       {client.ToolCall{Tool: "read"}, []string{"allow", "allow", "allow"}},
		"in a shadow policy": {client.ToolCall{Tool: "read", Path: "/shadow/"}, []string{"allow", "allow", "allow"}},
	} {
		if diff := cmp.Diff(c.want, act(c.call)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if d := ask(client.ToolCall{Tool: "read", Path: "/shadow/"}); len(d.Findings) != 1 || !d.Findings[0].Shadow {
		t.Errorf("shadow findings: %+v", d)
	}
}

func TestToolQuestionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for body, field := range map[string]string{
		`{"tool":"read"}`:                                       "session",
		`{"session":"s","arguments":{}}`:                        "tool",
		`{"session":"s","tool":7}`:                              "tool",
		`{"session":"s","tool":"a","prompt":"p"}`:               "tool",
		`{"session":"s","tool":"a","body":{}}`:                  "tool",
		`{"session":"s","tool":"a","is_error":true}`:            "is_error",
		`{"session":"s","tool":"a","result":1,"is_error":"no"}`: "is_error",
		`{"session":"s","tool":"a","explain":true}`:             "explain",
		`{"session":"s","tool":"a","results":1}`:                "results",
		`{"session":"s","tool":"a","path":"/unloop/v1/check"}`:  "path",
	} {
		a := send(t, url, check(body))
		var answer struct{ Error client.Error }
		if err := json.Unmarshal(a.body, &answer); err != nil || a.status != http.StatusBadRequest || answer.Error.Field != field || answer.Error.Message == "" {
			t.Errorf("%s: status %d, %s; want a fault of %s", body, a.status, a.body, field)
		}
	}
}
