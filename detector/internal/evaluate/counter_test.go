package evaluate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/detector/internal/workload"
	"github.com/unloop/unloop/schemas/checkpb"
)

type counterState = counter.State

// counterOf is a counter that rejects from its third hit on.
func counterOf(edit func(*checkpb.Counter)) *checkpb.Counter {
	c := &checkpb.Counter{
		Policy: "p", Detector: "prompt", Fingerprint: hash("prompt"), Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60,
		Threshold: 2, CooldownSeconds: 30, Steps: []*checkpb.Step{{At: 3, Action: reject}},
	}
	if edit != nil {
		edit(c)
	}
	return c
}

func counters(t *testing.T, check *checkpb.Check, all ...*checkpb.Counter) []part[counterState] {
	t.Helper()
	out := make([]part[counterState], len(all))
	for i, c := range all {
		one, err := evaluate.NewCounter(check, c, workload.Judgement{})
		if err != nil {
			t.Fatal(err)
		}
		out[i] = one
	}
	return out
}

func TestACounterFindsALoopAtItsThreshold(t *testing.T) {
	t.Parallel()
	c := counterOf(nil)
	check := &checkpb.Check{RequestId: "r", Model: "m", InputTokens: 7, Identity: &checkpb.Identity{Session: "5e55"}}
	s, results := run(counterState{}, counters(t, check, c, c, c, c)...)
	for i, r := range results {
		if fires := i >= 2; r.Hits != uint32(i+1) || (len(r.Findings) == 1) != fires || (r.Cooldown != nil) != (i == 2) {
			t.Errorf("hit %d: %+v", i+1, r)
		}
	}
	f, in, cooldown := results[2].Findings[0], results[2].Incidents[0], results[2].Cooldown
	if f.GetAction() != reject || f.GetBlockedMs() != 30_000 || f.GetThreshold() != 2 || len(f.GetHitAgesMs()) == 0 {
		t.Errorf("finding %v", f)
	}
	if in.Conversation != "5e55" || in.Hits != 1 || in.Count != 3 || in.Over || in.CooldownSeconds != 30 {
		t.Errorf("incident %+v", in.Finding)
	}
	if *in.LoopID = "loop"; f.GetLoopId() != "loop" {
		t.Error("the incident's id is not the finding's")
	}
	if cooldown.Key != counters(t, check, c)[0].Key() || cooldown.Part != "" || cooldown.Incident != "5e55" || !cooldown.At.Equal(noon.Add(2*time.Second)) {
		t.Errorf("cooldown %+v", cooldown)
	}
	if _, again := run(s, counters(t, &checkpb.Check{Peek: true}, c)...); again[0].Findings[0].GetAction() != reject {
		t.Errorf("a peek: %+v", again)
	}
}

func TestAccessOfACounter(t *testing.T) {
	t.Parallel()
	for peek, want := range map[bool]evaluate.Access{true: evaluate.Read, false: evaluate.Write} {
		if got := counters(t, &checkpb.Check{Peek: peek}, counterOf(nil))[0].Access(); got != want {
			t.Errorf("peek %t: access %d", peek, got)
		}
	}
	for name, edit := range map[string]func(*checkpb.Counter){
		"one count": func(c *checkpb.Counter) { c.Fingerprint = nil },
		"parts":     func(c *checkpb.Counter) { c.Parted, c.SlowHits = true, 1<<20 },
	} {
		if _, err := evaluate.NewCounter(&checkpb.Check{}, counterOf(edit), workload.Judgement{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Each kind of finding has an action, a rule and words of its own.
func TestFindingsOfCounters(t *testing.T) {
	t.Parallel()
	prompt := hash("prompt")
	model := func(b byte) []byte { return slices.Concat(prompt[:31], []byte{b}) }
	parted := func(c *checkpb.Counter) { c.Parted, c.Steps[0].At = true, 100 }
	for name, c := range map[string]struct {
		detector string
		hits     int
		edit     func(i int, c *checkpb.Counter)
		rule     string
		action   checkpb.Action
		says     string
	}{
		"bodies that can't be read": {"uninspected", 3, nil, "", reject, "3 request bodies of this caller"},
		"end users":                 {"users", 3, nil, "", reject, "changed its end user 3 times"},
		"identical rounds": {"prompt", 1, func(_ int, c *checkpb.Counter) {
			parted(c)
			c.Rounds, c.HintRounds = 4, 3
		}, "identical-rounds", hint, "The last 4 rounds"},
		"complaints": {"prompt", 1, func(_ int, c *checkpb.Counter) {
			parted(c)
			c.Rounds, c.HintRounds, c.StopRounds, c.Complaint = 4, 4, 8, true
		}, "complaints", hint, "Your last 4 answers brought the same complaint"},
		"complaints that go on": {"prompt", 1, func(_ int, c *checkpb.Counter) {
			parted(c)
			c.Rounds, c.HintRounds, c.StopRounds, c.Complaint = 8, 4, 8, true
		}, "complaints", reject, "Your last 8 answers"},
		"complaints, only warned of": {"prompt", 1, func(_ int, c *checkpb.Counter) {
			parted(c)
			c.Steps[0].Action = warn
			c.Rounds, c.HintRounds, c.StopRounds, c.Complaint = 8, 4, 8, true
		}, "complaints", hint, "Your last 8 answers"},
		"models in turn": {"prompt", 4, func(i int, c *checkpb.Counter) {
			parted(c)
			c.Fingerprint = model(byte(i % 2))
		}, "models-in-turn", warn, "two models by turns"},
		"the long window": {"prompt", 3, func(_ int, c *checkpb.Counter) {
			parted(c)
			c.SlowHits, c.SlowSeconds = 3, 600
		}, "slow", warn, "3 conversations began"},
		"sessions together": {"prompt", 3, func(i int, c *checkpb.Counter) {
			parted(c)
			c.Fingerprint = slices.Concat(prompt[:16], hash(fmt.Sprint("session ", i))[:8], prompt[24:])
			c.Together = &checkpb.Together{Fingerprint: slices.Concat(prompt[:16], make([]byte, 8), prompt[24:]), Threshold: 2, Steps: []*checkpb.Step{{At: 3, Action: reject}}}
		}, "sessions-together", reject, ""},
	} {
		var all []*checkpb.Counter
		for i := range c.hits {
			all = append(all, counterOf(func(one *checkpb.Counter) {
				if one.Detector = c.detector; c.edit != nil {
					c.edit(i, one)
				}
			}))
		}
		_, results := run(counterState{}, counters(t, &checkpb.Check{}, all...)...)
		last := results[c.hits-1]
		if len(last.Findings) != 1 {
			t.Errorf("%s: %+v", name, last)
			continue
		}
		f := last.Findings[0]
		if f.GetRule() != c.rule || f.GetAction() != c.action || !strings.Contains(f.Hint(), c.says) {
			t.Errorf("%s: %v", name, f)
		}
		if parted := all[0].GetParted(); last.Cooldown != nil && (last.Cooldown.Part != "") != parted {
			t.Errorf("%s: cooldown %+v", name, last.Cooldown)
		}
	}
}

// Identical rounds of calls that the policy expects to repeat are no loop.
func TestIdenticalRoundsOfPollsAreNoLoop(t *testing.T) {
	t.Parallel()
	check := watchCheck(func(w *checkpb.ToolWatch) { w.History.Items[0].Calls[0].Poll = true })
	c := counterOf(func(c *checkpb.Counter) { c.Parted, c.Rounds, c.HintRounds = true, 4, 3 })
	if _, results := run(counterState{}, counters(t, check, c)...); len(results[0].Findings) != 0 {
		t.Errorf("findings %v", results[0].Findings)
	}
}

// A request that was counted when its decision was asked for is no further hit of its
// incident.
func TestARequestThatWasAskedAboutIsOneHit(t *testing.T) {
	t.Parallel()
	c := counterOf(func(c *checkpb.Counter) { c.Steps[0].At = 1 })
	asked := counters(t, &checkpb.Check{RequestId: "r", Asked: true}, c)
	_, results := run(counterState{}, append(asked, counters(t, &checkpb.Check{RequestId: "r"}, c)...)...)
	if hits := results[1].Incidents[0].Hits; hits != 0 {
		t.Errorf("%d hits", hits)
	}
}

func TestExcusedCallsAreNotCountedAgain(t *testing.T) {
	t.Parallel()
	for name, parted := range map[string]bool{"one count": false, "parts": true} {
		c := counterOf(func(c *checkpb.Counter) { c.Parted = parted })
		update, err := evaluate.Excuse(c, false)
		if err != nil || update.Key != counters(t, &checkpb.Check{}, c)[0].Key() {
			t.Fatalf("%s: key %s, %v", name, update.Key, err)
		}
		if _, ttl := update.Step(counterState{}, noon); ttl != 0 {
			t.Errorf("%s: a counter without hits was stored", name)
		}
		s, _ := run(counterState{}, counters(t, &checkpb.Check{}, c)...)
		s, ttl := update.Step(s, noon)
		if _, results := run(s, counters(t, &checkpb.Check{}, c)...); ttl == 0 || results[0].Hits != 1 {
			t.Errorf("%s: kept for %s, count %d", name, ttl, results[0].Hits)
		}
	}
	if _, err := evaluate.Excuse(&checkpb.Counter{}, false); err == nil {
		t.Error("a malformed counter was excused")
	}
}
