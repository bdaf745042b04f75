package detector_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/policy"
)

// toolCheck is a check of a session whose history is the given items, by the
// default policy.
func toolCheck(items ...*checkpb.HistoryItem) *checkpb.Check {
	agent := sha256.Sum256([]byte("agent"))
	return &checkpb.Check{
		RequestId: "req", Identity: &checkpb.Identity{Caller: "c0ffee", Session: "5e55"},
		Watches: []*checkpb.ToolWatch{{
			Policy: "default", Agent: agent[:],
			Tool:    []byte(`{"error_threshold":0,"failed_rounds":0,"empty_threshold":0,"unknown_tool_threshold":0,"escalate":0,"poll_limit_hours":0}`),
			Cycle:   []byte(`{"nothing_new":0,"escalate":0,"wide_window":0}`),
			History: &checkpb.History{Items: items, Own: true},
		}},
	}
}

// setTool changes the parameters of the tool detector that a watch brings.
func setTool(w *checkpb.ToolWatch, edit func(*policy.Tool)) {
	block, err := policy.DecodeBlock[policy.Tool](w.GetTool())
	if err == nil {
		edit(block)
		w.Tool, err = policy.EncodeBlock(block)
	}
	if err != nil {
		w.Tool = []byte(err.Error()) // which no detector takes
	}
}

func human(text string) *checkpb.HistoryItem {
	d := fingerprint.String([]byte(text))
	return &checkpb.HistoryItem{Human: d[:]}
}

// round is a round of one call; n tells its call id from others.
func round(n int, tool, result string) *checkpb.HistoryItem {
	key, res, id := fingerprint.String([]byte(tool)), fingerprint.String([]byte(result)), fingerprint.String(fmt.Append(nil, n))
	return &checkpb.HistoryItem{Calls: []*checkpb.ToolCall{{Tool: tool, Call: key[:], Result: res[:], Id: id[:]}}}
}

// replay asks about each growing history that ends in one of the rounds, and
// returns the actions.
func replay(t *testing.T, ask func(*checkpb.Check) *checkpb.Decision, before []*checkpb.HistoryItem, rounds ...*checkpb.HistoryItem) []string {
	t.Helper()
	var actions []string
	for i := range rounds {
		d := ask(toolCheck(append(before, rounds[:i+1]...)...))
		if d.GetError() != "" {
			t.Fatalf("round %d: %s", i+1, d.GetError())
		}
		actions = append(actions, d.GetAction().Label())
	}
	return actions
}

// rounds are n calls of one tool with the same arguments.
func rounds(n int, result func(i int) string) []*checkpb.HistoryItem {
	all := make([]*checkpb.HistoryItem, n)
	for i := range all {
		all[i] = round(i, "read", result(i))
	}
	return all
}

func same(int) string        { return "same" }
func different(i int) string { return fmt.Sprint("result ", i) }

func TestRepeatedToolCallsAreHintedThenBlocked(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s)
	nc := s.Conn()
	ask1 := func(c *checkpb.Check) *checkpb.Decision { return ask(t, nc, c)[0] }
	got := replay(t, ask1, []*checkpb.HistoryItem{human("go")}, rounds(6, same)...)
	if diff := cmp.Diff([]string{"allow", "allow", "hint", "hint", "reject", "reject"}, got); diff != "" {
		t.Errorf("one call, one result (-want +got):\n%s", diff)
	}
	d := ask1(toolCheck(append([]*checkpb.HistoryItem{human("go")}, rounds(6, same)...)...))
	f := d.GetFindings()[0]
	if f.GetDetector() != "tool" || f.GetRule() != "repeat" || f.GetTool() != "read" || f.GetMessage() == "" || f.GetLoopId() == "" || f.GetBlockedMs() != 0 {
		t.Errorf("finding %v", f)
	}
	if loops := storedIncidents(t, s); len(loops) != 1 || loops[0].Detector != "tool" {
		t.Errorf("incidents %v", loops)
	}
}

func TestProgressIsNoLoop(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	got := replay(t, func(c *checkpb.Check) *checkpb.Decision { return ask(t, nc, c)[0] }, nil, rounds(12, different)...)
	for i, action := range got {
		if action != "allow" {
			t.Errorf("round %d: %s", i+1, action)
		}
	}
}

func TestCyclesAreBlockedInTheirThirdRepeat(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	var abab []*checkpb.HistoryItem
	for i := range 6 {
		abab = append(abab, round(i, string(rune('a'+i%2)), "same"))
	}
	got := replay(t, func(c *checkpb.Check) *checkpb.Decision { return ask(t, nc, c)[0] }, nil, abab...)
	if got[5] != "reject" || got[3] != "allow" {
		t.Errorf("A B A B A B: %v; want the sixth blocked and the fourth not", got)
	}
}

func TestReleasedToolLoopStartsAnewAlthoughItsHistoryStays(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	history := rounds(5, same)
	var loopID string
	for i := range history {
		for _, f := range ask(t, nc, toolCheck(history[:i+1]...))[0].GetFindings() {
			loopID = f.GetLoopId()
		}
	}
	if reply := release(t, nc, loopID); reply.GetError() != "" {
		t.Fatal(reply.GetError())
	}
	if d := ask(t, nc, toolCheck(history...))[0]; d.GetAction().Stops() {
		t.Errorf("after the release: %v", d)
	}
}

func TestToolPeekRemembersNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	peek := toolCheck(rounds(5, same)...)
	peek.Peek = true
	if d := ask(t, nc, peek)[0]; d.GetAction() != checkpb.Action_ACTION_REJECT {
		t.Errorf("peek: %v; want what the request would get", d)
	}
	if loops := storedIncidents(t, s); len(loops) != 0 {
		t.Errorf("peeking opened %d incidents", len(loops))
	}
	if d := ask(t, nc, toolCheck(rounds(1, same)...))[0]; len(d.GetFindings()) != 0 {
		t.Errorf("after peeking: %v", d)
	}
}

func TestHistoriesThatNoGatewaySendsAreRefused(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	shortDigest := toolCheck(round(1, "read", "x"))
	shortDigest.Watches[0].History.Items[0].Calls[0].Result = []byte("short")
	shortAgent := toolCheck(round(1, "read", "x"))
	shortAgent.Watches[0].Agent = []byte("short")
	for name, c := range map[string]*checkpb.Check{"digest": shortDigest, "agent": shortAgent} {
		if d := ask(t, nc, c)[0]; d.GetError() == "" {
			t.Errorf("short %s: %v; want an error", name, d)
		}
	}
}

func TestToolActionsEscalateByOccurrences(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	escalating := func(c *checkpb.Check) *checkpb.Decision {
		w := c.GetWatches()[0]
		setTool(w, func(t *policy.Tool) {
			t.Escalation = []policy.Step{{At: 2, Action: policy.Hint}, {At: 4, Action: policy.Throttle}, {At: 6, Action: policy.Reject}}
		})
		d := ask(t, nc, c)[0]
		if f := d.GetFindings(); d.GetAction() == checkpb.Action_ACTION_THROTTLE && f[0].GetDelayMs() != 100*f[0].GetHitCount() {
			t.Errorf("throttled for %d ms at %d", f[0].GetDelayMs(), f[0].GetHitCount())
		}
		return d
	}
	got := replay(t, escalating, []*checkpb.HistoryItem{human("read it")}, rounds(7, same)...)
	if diff := cmp.Diff([]string{"allow", "hint", "hint", "throttle", "throttle", "reject", "reject"}, got); diff != "" {
		t.Errorf("by occurrence (-want +got):\n%s", diff)
	}
}

// Words and pauses go by what is done about a finding, not by its threshold.
func TestFindingsSayWhatIsDoneAboutThem(t *testing.T) {
	t.Parallel()
	polls := rounds(15, same)
	for _, r := range polls {
		r.Calls[0].Poll = true
	}
	failures := rounds(10, same)
	for i, r := range failures {
		r.Calls[0].Call, r.Calls[0].Failed, r.Calls[0].ErrorClass = digestOf(i), true, r.Calls[0].GetResult()
	}
	for name, c := range map[string]struct {
		history []*checkpb.HistoryItem
		block   checkpb.Action
		says    string
		backoff uint32
	}{
		"a block that is a hint":     {rounds(5, same), checkpb.Action_ACTION_HINT, "Use what it already told you", 0},
		"a block":                    {rounds(5, same), checkpb.Action_ACTION_REJECT, "This call is blocked", 0},
		"a block that is a break":    {rounds(5, same), checkpb.Action_ACTION_BREAK, "All requests are refused", 0},
		"a hint that leads on":       {failures, checkpb.Action_ACTION_REJECT, "This call is blocked", 0},
		"a poll that is only warned": {polls[:9], checkpb.Action_ACTION_REJECT, "Wait 60 seconds", 60},
		"a poll that is blocked":     {polls, checkpb.Action_ACTION_REJECT, "This call is blocked", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := toolCheck(c.history...)
			setTool(check.GetWatches()[0], func(t *policy.Tool) {
				t.BlockAction, t.ErrorThreshold, t.Escalate = policy.Action(c.block.Label()), 5, 2
			})
			d := quickly(t, check)
			if f := d.GetFindings(); len(f) == 0 || !strings.Contains(f[0].GetMessage(), c.says) || f[0].GetBackoffSeconds() != c.backoff {
				t.Errorf("findings %v; want %q and a pause of %d s", f, c.says, c.backoff)
			}
		})
	}
}

// digestOf returns the digest of a number.
func digestOf(n int) []byte {
	d := fingerprint.String(fmt.Append(nil, n))
	return d[:]
}

// quickly asks for each round of a check's history in turn, and returns the last decision.
func quickly(t *testing.T, check *checkpb.Check) (d *checkpb.Decision) {
	t.Helper()
	c := new(clock)
	e := detector.NewEvaluator(c.now, nil)
	items := check.GetWatches()[0].GetHistory().GetItems()
	for i := range items {
		check.Watches[0].History.Items = items[:i+1]
		d = e.Decide(t.Context(), check)
		c.advance(time.Second)
	}
	return d
}

// Two findings that stop one request save one. A name that a model made up may hold
// anything, and is not published.
func TestAnIncidentOfSeveralFindingsSavesOneRequest(t *testing.T) {
	t.Parallel()
	made := rounds(5, same)
	for _, r := range made {
		r.Calls[0].Tool = "read\ncat /etc/passwd"
	}
	check := toolCheck(made...)
	setTool(check.GetWatches()[0], func(t *policy.Tool) { t.GlobalCircuitBreaker = 4 })
	evaluator := detector.NewEvaluator(new(clock).now, nil)
	d := evaluator.Decide(t.Context(), check)
	loop := evaluator.Incidents()[0]
	if len(d.GetFindings()) != 2 || loop.Saved.Requests != 1 || loop.Action != "break" || len(loop.Findings) != 2 || loop.Findings[0].Tool != "" {
		t.Errorf("findings %v, incident %+v", d.GetFindings(), loop)
	}
}

// A request that two detectors stop is saved once.
func TestAnIncidentOfTwoDetectorsSavesEachRequestOnce(t *testing.T) {
	t.Parallel()
	evaluator := detector.NewEvaluator(new(clock).now, nil)
	for i := range 9 {
		check := toolCheck(rounds(5, same)...)
		check.RequestId, check.Counters = fmt.Sprint("req-", i), promptCheck("p").GetCounters()
		if d := evaluator.Decide(t.Context(), check); len(d.GetFindings()) != 1+i/5 {
			t.Fatalf("request %d: %v", i+1, d.GetFindings())
		}
	}
	if loops := evaluator.Incidents(); len(loops) != 1 || loops[0].Saved.Requests != 9 {
		t.Errorf("incidents %+v; want nine requests stopped", loops)
	}
}

// What a reject is answered with is told by the detector that rejects; nothing
// else is answered in the model's place.
func TestRejectsSayWhatTheyAreAnsweredWith(t *testing.T) {
	t.Parallel()
	const synthetic = checkpb.Answer_ANSWER_SYNTHETIC
	abab := make([]*checkpb.HistoryItem, 6)
	for i := range abab {
		abab[i] = round(i, string(rune('a'+i%2)), "same")
	}
	for name, c := range map[string]struct {
		history []*checkpb.HistoryItem
		edit    func(*checkpb.ToolWatch)
		want    checkpb.Answer
	}{
		"a block":             {rounds(5, same), func(w *checkpb.ToolWatch) { w.BlockAnswer = synthetic }, synthetic},
		"a block, by cycle's": {rounds(5, same), func(w *checkpb.ToolWatch) { w.CycleAnswer = synthetic }, 0},
		"a cycle":             {abab, func(w *checkpb.ToolWatch) { w.CycleAnswer = synthetic }, synthetic},
		"a cycle, by tool's":  {abab, func(w *checkpb.ToolWatch) { w.BlockAnswer = synthetic }, 0},
		"a hint":              {rounds(3, same), func(w *checkpb.ToolWatch) { w.BlockAnswer = synthetic }, 0},
		"a block that is a break": {rounds(5, same), func(w *checkpb.ToolWatch) {
			w.BlockAnswer = synthetic
			setTool(w, func(t *policy.Tool) { t.BlockAction = policy.Break })
		}, 0},
		"a policy without the word": {rounds(5, same), func(*checkpb.ToolWatch) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evaluator := detector.NewEvaluator(new(clock).now, nil)
			check := toolCheck(c.history...)
			c.edit(check.GetWatches()[0])
			d := evaluator.Decide(t.Context(), check)
			if len(d.GetFindings()) == 0 || d.GetFindings()[0].GetAnswer() != c.want {
				t.Fatalf("decision %v; want answer %v", d, c.want)
			}
			loop := evaluator.Incidents()[0]
			if loop.Answer != c.want.Label() || loop.Findings[0].Answer != c.want.Label() {
				t.Errorf("incident %+v; want answer %q", loop, c.want.Label())
			}
		})
	}
}
