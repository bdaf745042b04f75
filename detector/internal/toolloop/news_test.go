package toolloop

import (
	"testing"

	"pgregory.net/rapid"
)

// Whether a round is news is known without what all rounds before it brought.
func TestNewsIsNewsWithoutTheRoundsBeforeIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.Uint64Range(1, 3)
		draw := func() (calls []pastCall) {
			for range rapid.IntRange(1, 2).Draw(t, "calls") {
				calls = append(calls, pastCall{
					key: few.Draw(t, "key"), result: few.Draw(t, "result"), class: few.Draw(t, "class"), loose: rapid.Uint64Range(0, 3).Draw(t, "loose"),
					flags: rapid.SampledFrom([]flags{0, known, known, known | failed, known | retold}).Draw(t, "flags"),
				})
			}
			return calls
		}
		s := State{}
		if rapid.Bool().Draw(t, "older") {
			s.older = []uint32{pair{few.Draw(t, "key"), few.Draw(t, "result")}.mark()}
		}
		before := seen{calls: map[uint64]bool{}, pairs: map[pair]bool{}, older: s.older}
		var rounds []round
		for range rapid.IntRange(0, 4).Draw(t, "rounds") {
			rounds = append(rounds, round{calls: draw()})
			before.take(rounds[len(rounds)-1].calls)
		}
		for _, c := range draw() {
			if want, got := before.look(&c) == news, s.isNews(rounds, &c); got != want {
				t.Fatalf("%+v after %+v: %t, want %t", c, rounds, got, want)
			}
		}
	})
}
