package toolloop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector/internal/toolloop"
)

func TestParametersThatMakeNoSenseAreRepairedAndSaid(t *testing.T) {
	t.Parallel()
	if p, said := toolloop.DefaultParams().Repair(); len(said) > 0 || !cmp.Equal(p, toolloop.DefaultParams()) {
		t.Errorf("the defaults need no repair: %v", said)
	}
	p := toolloop.DefaultParams()
	p.WarnThreshold, p.BlockThreshold, p.PollMultiplier, p.MaxWarnings, p.Remember, p.Idle = 10, 2, 0, -1, 5000, 0
	got, said := p.Repair()
	want := toolloop.DefaultParams()
	want.WarnThreshold, want.BlockThreshold, want.Remember = 2, 10, 1000
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"warn_threshold", "poll_multiplier", "max_warnings", "history_size", "idle"} {
		if !strings.Contains(strings.Join(said, "\n"), name) {
			t.Errorf("%s is not said: %q", name, said)
		}
	}
	if len(said) != 5 {
		t.Errorf("said %q", said)
	}
	p = toolloop.DefaultParams()
	p.BlockThreshold = 0
	if got, said := p.Repair(); got.BlockThreshold != 5 || got.WarnThreshold != 3 || len(said) != 1 {
		t.Errorf("repaired to %d and %d, said %q", got.WarnThreshold, got.BlockThreshold, said)
	}
	p.WarnThreshold, p.BlockThreshold = 4, 4
	if got, said := p.Repair(); got.WarnThreshold != 4 || got.BlockThreshold != 4 || len(said) != 0 {
		t.Error("equal thresholds need no repair")
	}
}

func TestStepRepairsItsParameters(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params = toolloop.Params{WarnThreshold: 10, BlockThreshold: 2}
	s.wantLevels(times(2, call("A", "")), allow, warn)

	s = newSession(t)
	s.params = toolloop.Params{}
	s.wantLevels(times(5, call("A", "")), allow, allow, warn, warn, block)
}

func TestThresholdsByTool(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.PerTool = []toolloop.ToolRule{
		{Match: "S*", WarnThreshold: 2, BlockThreshold: 3},
		{Match: "*", PollMultiplier: 1},
	}
	s.wantLevels(times(3, call("S", "")), allow, warn, block)
	s.wantLevels(times(5, pollCall("P", "")), allow, allow, warn, warn, block)
}

// An agent that asks before each call is judged as one that does not.
func TestAskingUnloopIsNeitherWorkNorALoop(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for i, want := range []toolloop.Level{allow, allow, warn, warn, block} {
		asked := call("M", fmt.Sprint("allow ", i))
		asked.Tool = "mcp__unloop__check_loop"
		if r := s.check(asked); i == 0 && r.Level() != allow {
			t.Fatalf("asking: %+v", r.Detections)
		}
		s.result(asked)
		if r := s.check(call("A", "")); r.Level() != want {
			t.Fatalf("call %d: %+v", i+1, r.Detections)
		}
	}
}

func TestExemptToolsAreNeverCounted(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.Exempt = []string{"E?", "E"}
	s.params.CircuitBreaker = 3
	s.wantLevels(times(40, call("E", "")), allow)
	if got := s.state.Stats(); got.Calls != 0 || got.Total != 0 {
		t.Errorf("stats are %+v", got)
	}
	// In a cycle they are passed over.
	s = newSession(t)
	s.params.Exempt = []string{"E"}
	s.params.WarnThreshold, s.params.BlockThreshold = 100, 100
	a, b, e := call("A", ""), call("B", ""), call("E", "")
	s.wantLevels([]toolloop.Call{a, e, b, a, b, e, a, b}, allow, allow, allow, allow, allow, allow, allow, block)
}

func TestToolsCanBeMarkedAsPolls(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.PollTools = []string{"W*"}
	s.wantLevels(times(9, call("W", "")), allow, allow, allow, allow, allow, allow, allow, allow, warn)
}

func TestGlobs(t *testing.T) {
	t.Parallel()
	matches := func(pattern, name string) bool {
		s := newSession(t)
		s.params.Exempt = []string{pattern}
		c := call("x", "")
		c.Tool = name
		s.check(c)
		return s.state.Stats().Total == 0
	}
	for pattern, names := range map[string][]string{
		"*": {"", "a", "mcp__a/b.c"}, "mcp__*__get_*": {"mcp__x__get_y", "mcp____get_"}, "a?c": {"abc", "a/c"}, "*a*a*": {"aa", "banana"}, "": {""},
	} {
		for _, name := range names {
			if !matches(pattern, name) {
				t.Errorf("%q must match %q", pattern, name)
			}
		}
	}
	for pattern, names := range map[string][]string{
		"a": {"", "ab", "ba", "A"}, "mcp__*__get_*": {"mcp__x__set_y"}, "a?c": {"ac", "abbc"}, "*a*a*": {"a"}, "": {"a"}, "?": {""},
	} {
		for _, name := range names {
			if matches(pattern, name) {
				t.Errorf("%q must not match %q", pattern, name)
			}
		}
	}
	start := time.Now()
	matches(strings.Repeat("*a", 50)+"b", strings.Repeat("a", 128))
	if time.Since(start) > time.Minute {
		t.Error("a hostile pattern takes for ever")
	}
}
