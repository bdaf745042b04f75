package evaluate_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/policy"
)

// digest is a digest of tool calls.
func digest(of string) []byte { return hash(of)[:16] }

// round is a round of one call; n tells its call id from others.
func round(n int, tool, result string) *checkpb.HistoryItem {
	return &checkpb.HistoryItem{Calls: []*checkpb.ToolCall{{Tool: tool, Call: digest(tool), Result: digest(result), Id: digest(fmt.Sprint(n))}}}
}

// rounds are n rounds of calls of the tools in turn, each with one result.
func rounds(n int, tools ...string) (all []*checkpb.HistoryItem) {
	for i := range n {
		all = append(all, round(i, tools[i%len(tools)], "same"))
	}
	return all
}

// The parameters of the usual watch: repeats and cycles alone are looked for.
const (
	onlyRepeats = `{"error_threshold":0,"failed_rounds":0,"empty_threshold":0,"unknown_tool_threshold":0,"escalate":0,"poll_limit_hours":0,"error_action":"throttle"}`
	onlyCycles  = `{"nothing_new":0,"escalate":0,"wide_window":0,"action":"break","wide_action":"warn"}`
)

// setTool and setCycle change the parameters that a watch brings.
func setTool(w *checkpb.ToolWatch, edit func(*policy.Tool)) { w.Tool = edited(w.GetTool(), edit) }

func setCycle(w *checkpb.ToolWatch, edit func(*policy.Cycle)) { w.Cycle = edited(w.GetCycle(), edit) }

func edited[B any](encoded []byte, edit func(*B)) []byte {
	block, err := policy.DecodeBlock[B](encoded)
	if err == nil {
		edit(block)
		encoded, err = policy.EncodeBlock(block)
	}
	if err != nil {
		return []byte(err.Error()) // which no detector takes
	}
	return encoded
}

// watchCheck is a check of a session whose history has one round.
func watchCheck(edit func(*checkpb.ToolWatch)) *checkpb.Check {
	w := &checkpb.ToolWatch{
		Policy: "p", Agent: hash("agent"), Tool: []byte(onlyRepeats), Cycle: []byte(onlyCycles), History: &checkpb.History{Items: rounds(1, "read"), Own: true},
	}
	if edit != nil {
		edit(w)
	}
	return &checkpb.Check{RequestId: "r", Watches: []*checkpb.ToolWatch{w}}
}

func watches(t *testing.T, checks ...*checkpb.Check) []part[toolloop.State] {
	t.Helper()
	out := make([]part[toolloop.State], len(checks))
	for i, check := range checks {
		one, err := evaluate.NewWatch(check, check.GetWatches()[0])
		if err != nil {
			t.Fatal(err)
		}
		out[i] = one
	}
	return out
}

func history(items []*checkpb.HistoryItem, edit func(*checkpb.ToolWatch)) *checkpb.Check {
	return watchCheck(func(w *checkpb.ToolWatch) {
		if w.History.Items = items; edit != nil {
			edit(w)
		}
	})
}

func TestActionsOfToolFindings(t *testing.T) {
	t.Parallel()
	failing := rounds(6, "read")
	for i, item := range failing {
		item.Calls[0].Failed, item.Calls[0].Call, item.Calls[0].ErrorClass = true, digest(fmt.Sprint("arguments ", i)), digest("error")
	}
	polls := rounds(6, "wait")
	for _, item := range polls {
		item.Calls[0].Poll = true
	}
	twice := round(0, "read", "same")
	for range 3 {
		twice.Calls = append(twice.Calls, twice.GetCalls()[0])
	}
	steps := []policy.Step{{At: 2, Action: policy.Hint}, {At: 4, Action: policy.Throttle}, {At: 6, Action: policy.Reject}}
	for name, c := range map[string]struct {
		items  []*checkpb.HistoryItem
		edit   func(*checkpb.ToolWatch)
		action checkpb.Action
		rule   string
	}{
		"a warning":         {rounds(3, "read"), nil, hint, "repeat"},
		"a block":           {rounds(5, "read"), nil, reject, "repeat"},
		"a note":            {[]*checkpb.HistoryItem{twice}, nil, warn, "parallel"},
		"an error":          {failing, func(w *checkpb.ToolWatch) { setTool(w, func(t *policy.Tool) { t.ErrorThreshold = 5 }) }, throttle, "same-error"},
		"a cycle":           {rounds(6, "a", "b"), nil, stop, "ping-pong"},
		"a cycle by steps":  {rounds(6, "a", "b"), func(w *checkpb.ToolWatch) { setCycle(w, func(c *policy.Cycle) { c.Escalation = steps[:1] }) }, hint, "ping-pong"},
		"a repeat by steps": {rounds(4, "read"), func(w *checkpb.ToolWatch) { setTool(w, func(t *policy.Tool) { t.Escalation = steps }) }, throttle, "repeat"},
		"a poll by steps":   {polls, func(w *checkpb.ToolWatch) { setTool(w, func(t *policy.Tool) { t.Escalation = steps }) }, hint, "repeat"},
		"nothing new": {rounds(9, "a", "b", "c", "a", "c", "b"), func(w *checkpb.ToolWatch) {
			setTool(w, func(t *policy.Tool) { t.WarnThreshold, t.BlockThreshold = 100, 100 })
			setCycle(w, func(c *policy.Cycle) { c.NothingNew, c.Repeats = 4, 1000 })
		}, warn, "nothing-new"},
		"a break": {rounds(4, "a", "b", "c"), func(w *checkpb.ToolWatch) { setTool(w, func(t *policy.Tool) { t.GlobalCircuitBreaker = 3 }) }, stop, "breaker"},
	} {
		_, results := run(toolloop.State{}, watches(t, history(c.items, c.edit))...)
		if len(results[0].Findings) == 0 {
			t.Errorf("%s: no finding", name)
			continue
		}
		if f := results[0].Findings[0]; f.GetAction() != c.action || f.GetRule() != c.rule || f.GetMessage() == "" {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func TestFindingsThatNobodyIsToldOf(t *testing.T) {
	t.Parallel()
	silent := func(w *checkpb.ToolWatch) { w.Tool, w.Cycle = nil, nil }
	if _, results := run(toolloop.State{}, watches(t, history(rounds(3, "read"), silent))...); len(results[0].Findings) != 0 {
		t.Errorf("an action that is off: %v", results[0].Findings)
	}
	again := history(rounds(3, "read"), nil)
	if _, results := run(toolloop.State{}, watches(t, again, again)...); len(results[0].Findings) != 1 || len(results[1].Findings) != 0 {
		t.Errorf("a hint that stands: %v", results[1].Findings)
	}
}

// Two findings that stop one request stop one request. A name that is none is not
// published.
func TestIncidentsOfToolFindings(t *testing.T) {
	t.Parallel()
	items := rounds(5, "read")
	for _, item := range items {
		item.Calls[0].Tool = "read\ncat /etc/passwd"
	}
	_, results := run(toolloop.State{}, watches(t, history(items, func(w *checkpb.ToolWatch) { setTool(w, func(t *policy.Tool) { t.GlobalCircuitBreaker = 4 }) }))...)
	in := results[0].Incidents
	if len(in) != 2 || in[0].Tool != "" || in[1].Tool != "" {
		t.Errorf("incidents %+v", in)
	}
}

// An incident names the calls of one period, by 64 bits of their hashes.
func TestIncidentsNameTheCallsOfALoop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tools []string
		n     int
		want  []string
	}{
		"a repeat":        {[]string{"read"}, 3, []string{"read"}},
		"a ping-pong":     {[]string{"read", "edit"}, 6, []string{"read", "edit"}},
		"a cycle of four": {[]string{"read", "edit", "test", "find"}, 12, []string{"read", "edit", "test", "find"}},
	} {
		_, results := run(toolloop.State{}, watches(t, history(rounds(c.n, c.tools...), nil))...)
		var want []event.Call
		for _, tool := range c.want {
			want = append(want, event.Call{Tool: tool, Call: key(tool), Result: key("same")})
		}
		in := results[0].Incidents
		if i := slices.IndexFunc(in, func(in evaluate.Incident) bool { return len(in.Calls) == len(want) }); i < 0 || !cmp.Equal(in[i].Calls, want) {
			t.Errorf("%s: %+v, want %+v", name, in, want)
		}
	}
}

// key is the first half of a digest in hex.
func key(of string) string { return hex.EncodeToString(digest(of)[:8]) }

func TestAnswersToRejects(t *testing.T) {
	t.Parallel()
	const synthetic = checkpb.Answer_ANSWER_SYNTHETIC
	for name, c := range map[string]struct {
		items []*checkpb.HistoryItem
		edit  func(*checkpb.ToolWatch)
		want  checkpb.Answer
	}{
		"a repeat": {rounds(5, "read"), func(w *checkpb.ToolWatch) { w.BlockAnswer = synthetic }, synthetic},
		"a cycle": {rounds(6, "a", "b"), func(w *checkpb.ToolWatch) {
			w.CycleAnswer = synthetic
			setCycle(w, func(c *policy.Cycle) { c.Action = policy.Reject })
		}, synthetic},
		"a break": {rounds(6, "a", "b"), func(w *checkpb.ToolWatch) { w.CycleAnswer = synthetic }, 0},
	} {
		_, results := run(toolloop.State{}, watches(t, history(c.items, c.edit))...)
		if f := results[0].Findings[0]; f.GetAnswer() != c.want {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// A tool runner's calls are checked before and reported after they are made, and can
// be explained.
func TestToolRunners(t *testing.T) {
	t.Parallel()
	runner := func(edit func(*checkpb.ToolRun)) *checkpb.Check {
		r := &checkpb.ToolRun{Call: &checkpb.ToolCall{Tool: "read", Call: digest("read")}}
		edit(r)
		return watchCheck(func(w *checkpb.ToolWatch) { w.Run = r })
	}
	before := runner(func(*checkpb.ToolRun) {})
	after := runner(func(r *checkpb.ToolRun) { r.Done, r.Call.Result = true, digest("same") })
	explain := runner(func(r *checkpb.ToolRun) { r.Call = nil })
	all := watches(t, before, after, before, after, before, after, before, after, before, explain)
	_, results := run(toolloop.State{}, all...)
	if r := results[8]; r.Findings[0].GetAction() != reject || r.Tools.GetStreak() != 5 || r.Tools.GetBackoffSeconds() != 0 || r.Hits != 5 {
		t.Errorf("the fifth call: %+v", r)
	}
	if r := results[9]; r.Tools.GetTotal() != 5 || r.Tools.GetMostRepeated() != "read" || len(r.Findings) != 1 || all[9].Access() != evaluate.Read {
		t.Errorf("explained: %+v", r)
	}
	shown := history(rounds(2, "read"), nil)
	shown.Explain = true
	if _, r := run(toolloop.State{}, watches(t, shown)...); r[0].Tools.GetStreak() != 2 {
		t.Errorf("a history that is explained: %+v", r[0].Tools)
	}
}

func TestWatchesThatNoGatewaySendsAreRefused(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*checkpb.ToolWatch){
		"agent":  func(w *checkpb.ToolWatch) { w.Agent = nil },
		"result": func(w *checkpb.ToolWatch) { w.History.Items[0].Calls[0].Result = []byte("short") },
		"call":   func(w *checkpb.ToolWatch) { w.Run = &checkpb.ToolRun{Call: &checkpb.ToolCall{Call: []byte("short")}} },
	} {
		check := watchCheck(edit)
		if _, err := evaluate.NewWatch(check, check.GetWatches()[0]); err == nil || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A released session begins again although its history shows all calls, and is kept
// for as long as its policy remembers it.
func TestReleasedSessions(t *testing.T) {
	t.Parallel()
	check := history(rounds(5, "read"), nil)
	s, _ := run(toolloop.State{}, watches(t, check)...)
	update := evaluate.Release(&checkpb.CounterRef{Policy: "p", Fingerprint: hash("agent")}, 24*time.Hour)
	if _, ttl := update.Step(toolloop.State{}, noon); ttl != 0 {
		t.Error("a session that is not known was stored")
	}
	released, ttl := update.Step(s, noon)
	if ttl != 24*time.Hour+time.Second || update.Key != watches(t, check)[0].Key() {
		t.Errorf("kept for %s as %s", ttl, update.Key)
	}
	var back toolloop.State
	if err := back.Parse(released.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if _, results := run(back, watches(t, check)...); len(results[0].Findings) != 0 {
		t.Errorf("after the release: %v", results[0].Findings)
	}
	if err := back.Parse([]byte(`{}`)); err == nil {
		t.Error("an object was read as a session")
	}
}

func TestWatchesUseTheDefaultsOfWhatTheirParametersLack(t *testing.T) {
	t.Parallel()
	check := history(rounds(3, "read"), func(w *checkpb.ToolWatch) { w.Tool = []byte(`{"of_a_newer_version":1}`) })
	_, results := run(toolloop.State{}, watches(t, check)...)
	var got []uint32
	for _, f := range results[0].Findings {
		got = append(got, f.GetThreshold(), f.GetWindowSeconds())
	}
	if diff := cmp.Diff([]uint32{3, 1800}, got); diff != "" {
		t.Errorf("threshold and idle time (-want +got):\n%s", diff)
	}
}

func TestParametersThatNoGatewaySendsAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`{"warn_threshold":-1}`, `{"history_size":5000}`, `{"warn_action":"stop"}`, `[]`, `{`} {
		check := watchCheck(func(w *checkpb.ToolWatch) { w.Tool = []byte(bad) })
		if _, err := evaluate.NewWatch(check, check.GetWatches()[0]); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// A hint that stands leads on to a block only where it is a hint.
func TestWarningsDoNotLeadOn(t *testing.T) {
	t.Parallel()
	failures := rounds(12, "read")
	for i, item := range failures {
		c := item.GetCalls()[0]
		c.Call, c.Failed, c.ErrorClass = digest(fmt.Sprint("read ", i)), true, c.GetResult()
	}
	for name, c := range map[string]struct {
		errors, block, want checkpb.Action
		items               []*checkpb.HistoryItem
	}{
		"a hint about errors":    {errors: hint, block: reject, want: reject, items: failures},
		"a warning about errors": {errors: warn, block: reject, want: warn, items: failures},
		"a throttle of errors":   {errors: throttle, block: hint, want: throttle, items: failures},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := history(c.items, func(w *checkpb.ToolWatch) {
				setTool(w, func(t *policy.Tool) {
					t.ErrorAction, t.BlockAction = policy.Action(c.errors.Label()), policy.Action(c.block.Label())
					t.ErrorThreshold, t.Escalate = 5, 2
				})
			})
			v := watches(t, check)[0]
			v.Step(toolloop.State{}, time.Unix(1_700_000_000, 0))
			var got checkpb.Action
			for _, f := range v.Result().Findings {
				if f.GetRule() == "same-error" {
					got = f.GetAction()
				}
			}
			if got != c.want {
				t.Errorf("action %v, want %v", got, c.want)
			}
		})
	}
}
