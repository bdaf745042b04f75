package toolloop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/policy"
)

func TestThresholdsByTool(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.PerTool = []policy.PerTool{
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
	s.params.GlobalCircuitBreaker = 3
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

func TestCallsThatAreExpectedToRepeat(t *testing.T) {
	t.Parallel()
	p := toolloop.DefaultParams()
	p.PollTools, p.Exempt = []string{"wait_*"}, []string{"sleep"}
	for tool, want := range map[string]bool{"wait_for": true, "sleep": true, "mcp__unloop__check_loop": true, "read": false} {
		if p.Expects(tool, false) != want {
			t.Errorf("%s: %t", tool, !want)
		}
	}
	if !p.Expects("read", true) {
		t.Error("a poll is expected to repeat")
	}
}

// The oldest calls and tools are forgotten, and the newest count on.
func TestManyDistinctCallsForgetTheOldest(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.params.HistorySize = 1000
	for i := range 400 {
		c := call(fmt.Sprint("C", i), "")
		c.Tool = fmt.Sprint("tool", i)
		s.check(c)
	}
	for i, want := range []toolloop.Level{allow, warn} {
		if r := s.check(call("C399", "")); r.Level() != want {
			t.Errorf("occurrence %d: %+v", i+2, r.Detections)
		}
	}
}
