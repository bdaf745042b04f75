package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/deploy/replay"
)

// traffic replays conversations that each repeat one prompt so many times.
func traffic(t *testing.T, r *replay.Run, times ...int) {
	t.Helper()
	at := noon
	for i, n := range times {
		at = at.Add(time.Hour)
		for range n {
			evaluate(t, r, "day.jsonl", entry(t, at, fmt.Sprint("s", i), fmt.Sprint("prompt ", i), nil))
		}
	}
}

func repeat(n, times int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = times
	}
	return out
}

func TestThresholdsAreSuggestedFromWhatWasSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		times []int
		want  []string
	}{
		"nobody repeats anything":            {repeat(30, 1), []string{"prompt.max_hits 2"}},
		"the threshold fits":                 {append(repeat(30, 1), 4), nil},
		"too little was seen":                {repeat(5, 1), nil},
		"few are flagged":                    {append(repeat(60, 1), 9, 9), nil},
		"many are flagged":                   {append(repeat(10, 1), repeat(10, 9)...), []string{"prompt.max_hits 9"}},
		"one alone is flagged among a dozen": {append(repeat(12, 1), 9), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, `{bundle_version: 1, policies: [{id: a, spec: {prompt: {}}}]}`)
			traffic(t, r, c.times...)
			var got []string
			for _, s := range r.Report().Suggestions {
				got = append(got, s.Setting+" "+s.Better)
				if s.Policy != "a" || s.Now != "5" || s.Why == "" {
					t.Errorf("suggestion %+v", s)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("suggestions (-want +got):\n%s", diff)
			}
		})
	}
}

// A suggestion that is followed does what it says.
func TestASuggestedThresholdLetsWhatWasSeenPass(t *testing.T) {
	t.Parallel()
	times := append(repeat(10, 1), repeat(10, 9)...)
	for max, want := range map[int]int{8: 10, 9: 0} {
		r := run(t, fmt.Sprintf(`{bundle_version: 1, policies: [{id: a, spec: {prompt: {max_hits: %d}}}]}`, max))
		traffic(t, r, times...)
		if got := r.Report().Saved.Requests; got != want {
			t.Errorf("max_hits %d stops %d requests, want %d", max, got, want)
		}
	}
}

func TestAToolThatRepeatsItselfEverywhereMayBeAPoll(t *testing.T) {
	t.Parallel()
	r := run(t, "")
	for i := range 3 {
		var session strings.Builder
		fmt.Fprintf(&session, `[{"role":"user","content":"go %d"}`, i)
		for n := range 4 {
			fmt.Fprintf(&session, `,{"role":"assistant","tool_calls":[{"id":"%d","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"%d","content":"nothing yet"}`, n, n)
		}
		session.WriteString(`,{"role":"assistant","content":"done"}]`)
		evaluate(t, r, fmt.Sprintf("%d.json", i), []byte(session.String()))
	}
	found := false
	for _, s := range r.Report().Suggestions {
		found = found || s.Setting == "tool.poll_tools" && strings.Contains(s.Better, "look")
	}
	if !found {
		t.Errorf("suggestions %+v; want look among the polls", r.Report().Suggestions)
	}
}
