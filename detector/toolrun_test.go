package detector_test

import (
	"crypto/sha256"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/policy"
)

// run is a check of one call of a tool runner by the default policy; without a
// result the call is about to be made.
func run(tool, args, result string) *checkpb.Check {
	c := toolCheck()
	arguments := fingerprint.Bytes([]byte(args))
	if canonical, err := fingerprint.JSON([]byte(args)); err == nil {
		arguments = canonical
	}
	key := fingerprint.Call(tool, arguments)
	call := &checkpb.ToolCall{Tool: tool, Call: key[:]}
	if result != "" {
		d := fingerprint.String([]byte(result))
		call.Result = d[:]
	}
	runner := sha256.Sum256([]byte("tool runner"))
	c.Watches[0].Agent = runner[:]
	c.Watches[0].Run = &checkpb.ToolRun{Call: call, Done: result != ""}
	return c
}

// asking returns what asks one detector, and fails on decisions without a count.
func asking(t *testing.T, nc *nats.Conn) func(*checkpb.Check) *checkpb.Decision {
	return func(c *checkpb.Check) *checkpb.Decision {
		t.Helper()
		d := ask(t, nc, c)[0]
		if d.GetError() != "" || len(d.GetToolReports()) != len(c.GetWatches()) {
			t.Fatalf("decision %v; want one report a watch", d)
		}
		return d
	}
}

func TestAToolRunnersCallIsHintedAtThreeAndBlockedAtFive(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s)
	ask := asking(t, s.Conn())
	var actions []string
	var last *checkpb.Decision
	for range 6 {
		last = ask(run("read", `{"a":1,"b":2}`, ""))
		actions = append(actions, last.GetAction().Label())
	}
	if diff := cmp.Diff([]string{"allow", "allow", "hint", "hint", "reject", "reject"}, actions); diff != "" {
		t.Errorf("one call (-want +got):\n%s", diff)
	}
	f, r := last.GetFindings()[0], last.GetToolReports()[0]
	if f.GetRule() != "repeat" || f.GetTool() != "read" || f.GetMessage() == "" || f.GetLoopId() == "" {
		t.Errorf("finding %v", f)
	}
	if r.GetStreak() != 6 || r.GetWarnThreshold() != 3 || r.GetBlockThreshold() != 5 || r.GetTotal() != 6 || r.GetUnique() != 1 || r.GetBlocked() != 2 {
		t.Errorf("report %v", r)
	}
	if again := ask(run("read", `{"b": 2.0, "a": 1}`, "")); again.GetAction() != checkpb.Action_ACTION_REJECT {
		t.Errorf("the same call in another spelling: %v", again)
	}
}

func TestAToolRunnersDifferentResultsAreProgress(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	ask := asking(t, s.Conn())
	for _, result := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		for _, c := range []*checkpb.Check{run("read", "{}", ""), run("read", "{}", result)} {
			if d := ask(c); d.GetAction() != checkpb.Action_ACTION_ALLOW || len(d.GetFindings()) != 0 {
				t.Fatalf("result %s: %v", result, d)
			}
		}
	}
}

func TestAToolRunnersPeekCountsNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	ask := asking(t, s.Conn())
	for range 4 {
		ask(run("read", "{}", ""))
	}
	peek := run("read", "{}", "")
	peek.Peek = true
	for range 3 {
		if d := ask(peek); d.GetAction() != checkpb.Action_ACTION_REJECT || d.GetToolReports()[0].GetStreak() != 5 {
			t.Fatalf("peek %v; want what the fifth call would get", d)
		}
	}
	if loops := storedIncidents(t, s); len(loops) != 1 || loops[0].Saved.Requests != 0 {
		t.Errorf("incidents %v; want one that stopped nothing yet", loops)
	}
}

func TestASessionCanBeExplainedWithoutACall(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	ask := asking(t, s.Conn())
	explain := run("", "", "")
	explain.Watches[0].Run = &checkpb.ToolRun{}
	if d := ask(explain); len(d.GetFindings()) != 0 || d.GetToolReports()[0].GetTotal() != 0 {
		t.Errorf("before the first call: %v", d)
	}
	for range 3 {
		ask(run("read", "{}", ""))
	}
	ask(run("write", "{}", ""))
	for range 3 {
		ask(run("read", "{}", ""))
	}
	for range 2 {
		d := ask(explain)
		r := d.GetToolReports()[0]
		if len(d.GetFindings()) == 0 || r.GetTotal() != 7 || r.GetUnique() != 2 || r.GetMostRepeated() != "read" || r.GetMostRepeatedCount() != 6 {
			t.Errorf("explained: %v", d)
		}
	}
}

// An operator reads what is done now, about which tool, and how much was stopped:
// not the hints that came before.
func TestAnIncidentTellsTheToolAndCountsWhatWasStopped(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	ask := asking(t, s.Conn())
	watch := watchKey(t, s, schemas.BucketIncidents)
	for range 8 {
		ask(run("read", "{}", ""))
	}
	watch(func(value []byte) bool {
		var in openloop.Record
		if err := in.Parse(value); err != nil || in.HitCount != 8 {
			return false
		}
		f := in.Findings[0]
		if in.Saved.Requests != 4 || in.Action != "reject" || in.Threshold != 5 || f.Rule != "repeat" || f.Tool != "read" {
			t.Errorf("incident %+v; want four rejects of read", in)
		}
		return true
	})
}

func TestABreakStandsForToolRunnersUntilItIsReleased(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	ask := asking(t, nc)
	limited := func(args string) *checkpb.Check {
		c := run("read", args, "")
		setTool(c.GetWatches()[0], func(t *policy.Tool) { t.GlobalCircuitBreaker = 2 })
		return c
	}
	var d *checkpb.Decision
	for _, args := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`} {
		d = ask(limited(args))
	}
	if d.GetAction() != checkpb.Action_ACTION_BREAK || !d.GetToolReports()[0].GetBroken() {
		t.Fatalf("fourth call: %v; want a break", d)
	}
	explain := limited("")
	explain.Watches[0].Run = &checkpb.ToolRun{}
	if d := ask(explain); d.GetAction() != checkpb.Action_ACTION_BREAK || d.GetFindings()[0].GetRule() != "breaker" {
		t.Errorf("explained: %v; want the break", d)
	}
	if reply := release(t, nc, d.GetFindings()[0].GetLoopId()); reply.GetError() != "" {
		t.Fatal(reply.GetError())
	}
	if d := ask(limited(`{"n":5}`)); d.GetAction() != checkpb.Action_ACTION_ALLOW {
		t.Errorf("after the release: %v", d)
	}
}
