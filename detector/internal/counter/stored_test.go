package counter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatesAreStoredInFewBytes(t *testing.T) {
	t.Parallel()
	const at, mark = 1_795_323_061_874, "38c9c394adafe7b219cd99c294c21fd6"
	blocked := State{
		Count: 8, First: at - 136, Last: at, Hits: []int64{at - 135, at - 134, at - 133, at - 133, at, at}, BlockedUntil: at + 29867,
		Incident: "6aae674a7aef552314b17e6222ccd22a", Rounds: 8,
	}
	for name, c := range map[string]struct {
		state State
		most  int
	}{
		"a block":              {blocked, 80},
		"parts":                {State{Last: at, Parts: []Part{{mark, blocked}}, Slow: []int64{at - 136, at}, Turns: []string{mark, mark, mark, mark}}, 150},
		"one hit":              {State{Count: 1, First: at, Last: at, Hits: []int64{at}, IDs: "abcdefgh"}, 32},
		"a part that is gone":  {State{Last: 5, Turns: []string{mark}}, 40},
		"an unanswered call":   {State{Count: 3, First: at, Last: at, Forgiven: 1, Excused: true, Aborted: 2, Key: "ab", Asked: []string{"cd"}}, 40},
		"a clock set back":     {State{Count: 2, First: at, Last: at, Hits: []int64{at, at + 5}}, 50},
		"a history that began": {State{Count: 1, Last: at, Messages: 7, Before: 3}, 30},
	} {
		var again State
		body := c.state.Append(nil)
		if err := again.Parse(body); err != nil || cmp.Diff(c.state, again) != "" {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(c.state, again))
		}
		if len(body) > c.most {
			t.Errorf("%s: %d bytes, want %d at most", name, len(body), c.most)
		}
	}
}
