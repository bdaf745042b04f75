package streak_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/detector/internal/streak"
)

// like is the comparison of a text that is like earlier ones.
func like(id, text string, matches ...string) streak.Comparison {
	return streak.Comparison{Compared: true, ID: id, Text: text, Similar: len(matches) >= 2, Matches: matches, MinMatches: 2, Similarity: .97}
}

func compare(t *testing.T, s streak.State, v streak.Comparison, want string) streak.State {
	t.Helper()
	s, j := streak.Compare(s, v)
	got := "clear"
	switch {
	case j.Replay:
		got = "replay"
	case j.Similar:
		got = fmt.Sprint("found ", j.Count)
	}
	if got != want {
		t.Errorf("%s: %s, want %s", v.ID, got, want)
	}
	return s
}

func TestFindingsInARowEndWithAClearText(t *testing.T) {
	t.Parallel()
	s := compare(t, streak.State{}, like("3", "a", "1", "2"), "found 1")
	s = compare(t, s, like("4", "b", "1", "2"), "found 2")
	s = compare(t, s, like("5", "c", "1"), "clear")
	if !s.IsZero() {
		t.Errorf("state %+v", s)
	}
	compare(t, s, like("6", "d", "1", "2"), "found 1")
}

func TestReplayOfAFailedCallIsNoFindingAtMostTwice(t *testing.T) {
	t.Parallel()
	s := streak.Excuse(streak.State{Matches: 3}, "a")
	s = compare(t, s, like("2", "a", "1", "0"), "replay")
	s = compare(t, s, like("3", "b", "1", "0"), "found 4")
	s = streak.Excuse(s, "a")
	s = compare(t, s, like("4", "a", "3", "2", "1", "0"), "replay")
	s = streak.Excuse(s, "a")
	s = compare(t, s, like("5", "a", "4", "3", "2", "1", "0"), "found 5")
	s = streak.Excuse(s, "a")
	compare(t, s, like("6", "a", "5", "1"), "replay")
}

func TestOnlyTheNextCallIsAReplay(t *testing.T) {
	t.Parallel()
	s := compare(t, streak.Excuse(streak.State{}, "a"), like("2", "a", "1", "0"), "replay")
	compare(t, s, like("3", "a", "1", "0"), "found 1")
}

func TestCallsOfOneIdempotencyKeyAreOneAtMostTwice(t *testing.T) {
	t.Parallel()
	keyed := func(id, text, key string, matches ...string) streak.Comparison {
		v := like(id, text, matches...)
		v.Key = key
		return v
	}
	s := compare(t, streak.State{}, keyed("1", "a", "k"), "clear")
	s = compare(t, s, keyed("2", "a", "k", "1", "0"), "replay")
	s = compare(t, s, keyed("3", "b", "k", "1", "0"), "found 1")
	s = compare(t, s, keyed("4", "a", "k", "3", "2", "1"), "replay")
	s = compare(t, s, keyed("5", "a", "k", "3", "2", "1"), "found 2")
	s = compare(t, s, keyed("6", "a", "k", "5", "3"), "replay")
	compare(t, s, keyed("7", "a", "other", "5", "3"), "found 3")
}

// To be like a replay and like what it replays is one match.
func TestReplaysAreNoMatches(t *testing.T) {
	t.Parallel()
	s := compare(t, streak.Excuse(streak.State{}, "a"), like("2", "a", "1"), "replay")
	s = compare(t, s, like("3", "b", "2", "1"), "clear")
	compare(t, s, like("4", "c", "3", "2", "1"), "found 1")
}

func TestRequestThatWasAskedAboutCountsOnce(t *testing.T) {
	t.Parallel()
	asked, sent := like("asked.x.1", "a", "1", "0"), like("2", "a", "1", "0")
	sent.Replaced = "asked.x."
	s := compare(t, streak.State{}, asked, "found 1")
	s = compare(t, s, sent, "found 1")
	s = compare(t, s, like("3", "a", "2", "1", "0"), "found 2")
	unlike := sent
	unlike.Similar, unlike.Matches = false, nil // the history has moved on since
	if s = compare(t, s, unlike, "clear"); s.Matches != 2 {
		t.Errorf("%d in a row, want the 2 of what was asked", s.Matches)
	}
	compare(t, streak.State{}, sent, "found 1") // released meanwhile
}

func TestReplayThatWasAskedAboutIsOneReplay(t *testing.T) {
	t.Parallel()
	s := compare(t, streak.Excuse(streak.State{}, "a"), like("asked.x.1", "a", "1", "0"), "replay")
	sent := like("2", "a", "1", "0")
	sent.Replaced = "asked.x."
	s = compare(t, s, sent, "replay")
	if diff := cmp.Diff([]string{"2"}, s.Aside); diff != "" {
		t.Errorf("set aside (-want +got):\n%s", diff)
	}
}

func TestStateIsBoundedAndReadsBack(t *testing.T) {
	t.Parallel()
	var s streak.State
	for i := range 100 {
		s = streak.Excuse(s, fmt.Sprint("text", i))
		s, _ = streak.Compare(s, like(fmt.Sprint(i), fmt.Sprint("text", i)))
		s = streak.Excuse(s, fmt.Sprint("other", i))
	}
	body := s.Append(nil)
	if len(s.Calls) > 16 || len(s.Aside) > 16 || len(body) > 2<<10 {
		t.Errorf("%d calls, %d aside, %d bytes", len(s.Calls), len(s.Aside), len(body))
	}
	var again streak.State
	if err := again.Parse(body); err != nil || !again.Equal(s) {
		t.Errorf("read back %+v, %v", again, err)
	}
}

func TestAStateReadsBackAndGoesOn(t *testing.T) {
	t.Parallel()
	want := streak.State{
		Matches: 3, Late: .97, Retries: 1, Calls: []streak.Call{{Text: "a", Key: "k", Replays: 1, Open: true}}, Aside: []string{"2"}, Incident: "c", Released: 7,
	}
	var s streak.State
	if err := s.Parse(want.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want.Incident = ""
	v := like("4", "b", "1", "3")
	v.Incident = "c"
	if s, j := streak.Compare(want, v); j.Count != 4 || j.Incident != "c" || s.Incident != "c" {
		t.Errorf("%+v, %+v; want the row to go on, under a conversation from now on", s, j)
	}
}

// A late match applies to the next request, which also begins without a comparison.
func TestLateMatchesAreRecalledOnce(t *testing.T) {
	t.Parallel()
	late := like("3", "a", "1", "2")
	late.Late = true
	s, m := streak.Compare(streak.State{}, late)
	if !m.Similar || s.Late != .97 {
		t.Fatalf("match %+v, state %+v", m, s)
	}
	s, m = streak.Compare(s, streak.Comparison{})
	if m.Late != .97 || m.Matches != 1 || m.Similar {
		t.Errorf("the next request: %+v", m)
	}
	if _, r, changed := streak.Recall(s, false); r.Late != 0 || changed {
		t.Errorf("the one after it: %+v, changed %t", r, changed)
	}
}

func TestAtMostTwoRetriesInARowAreNotCompared(t *testing.T) {
	t.Parallel()
	var s streak.State
	for i, want := range []bool{true, true, false, true} {
		var r streak.Recalled
		if s, r, _ = streak.Recall(s, true); r.Retry != want {
			t.Errorf("retry %d: %+v", i+1, r)
		}
	}
}

func TestTextsFromBeforeAReleaseDoNotCount(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_790_000_000_000)
	for name, c := range map[string]struct {
		at   int64
		want string
	}{"before": {now.UnixMilli() - 1, "clear"}, "after": {now.UnixMilli() + 1, "found 1"}} {
		v := like("3", "a", "1", "2")
		v.ID, v.At = name, []int64{c.at, c.at}
		compare(t, streak.Released(now), v, c.want)
	}
}

func TestAStateThatCanNotBeWrittenIsForgotten(t *testing.T) {
	t.Parallel()
	s := streak.State{Matches: 2, Incident: "\xff"}
	if got := s.Append(nil); len(got) > 0 {
		t.Errorf("stored as %q", got)
	}
}
