package toolloop_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/detector/internal/toolloop"
)

// joined returns a history whose rounds since the n-th item stand in one.
func joined(history []toolloop.Item, n int) []toolloop.Item {
	var one toolloop.Item
	for _, it := range history[min(n, len(history)):] {
		one.Calls = append(one.Calls, it.Calls...)
	}
	out := join(history[:min(n, len(history))])
	if one.Calls != nil {
		out = append(out, one)
	}
	return out
}

// named gives the calls of a history ids of their own.
func named(history []toolloop.Item, prefix string) []toolloop.Item {
	for i := range history {
		for k := range history[i].Calls {
			history[i].Calls[k].ID = hash(fmt.Sprint(prefix, i, "/", k))
		}
	}
	return history
}

func TestCallsAddedToAMessageAreNewRounds(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string]bool{"with ids": true, "without ids": false} {
		for kind, s := range map[string]*session{"own": newSession(t), "derived": derivedSession(t)} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				var work []toolloop.Item
				for i := range 100 {
					work = append(work, rounds(fmt.Sprintf("W%d:%d", i, i))...)
				}
				history := join([]toolloop.Item{human("go")}, work, rounds("A:same", "A:same", "A:same", "A:same", "A:same"))
				if ids {
					history = named(history, "c")
				}
				for i := range history {
					level := fresh(s.request(joined(history[:i+1], 1)))
					want := allow
					switch i - len(work) {
					case 3, 4:
						want = warn
					case 5:
						want = block
					}
					if level != want {
						t.Fatalf("request %d: %v, want %v", i, level, want)
					}
				}
			})
		}
	}
}

func TestCallsThatComeTogetherStayParallel(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string]bool{"with ids": true, "without ids": false} {
		both := round(call("A", "a"), call("B", "b"))
		history := []toolloop.Item{human("go"), round(call("A", "a")), both, both, round(call("A", "a"), call("A", "a"), call("A", "a"))}
		if ids {
			history = named(join(history), "c")
			for i := range history {
				history[i].Calls = append([]toolloop.Call(nil), history[i].Calls...)
			}
		}
		s := newSession(t)
		for i := range history {
			s.request(history[:i+1])
		}
		if got := s.state.Stats().Total; got != 8 {
			t.Errorf("%s: %d calls, want 8", name, got)
		}
		if diff := cmp.Diff([]toolloop.Level{allow, allow, allow, allow, toolloop.Note}, newSession(t).grow(history)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Messages that grow, one behind the other, give the same results as rounds of their own.
func TestAMessageThatGrowsCountsAsItsSteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		own, ids := rapid.Bool().Draw(t, "own"), rapid.Bool().Draw(t, "ids")
		most := 9 // without ids, all turns must be remembered
		if ids {
			most = 20
		}
		alone, grown := rapidSession(t, own), rapidSession(t, own)
		grown.params = alone.params
		var plain, grew []toolloop.Item
		for turn := range rapid.IntRange(1, 3).Draw(t, "turns") {
			plain, grew = append(plain, human(fmt.Sprint("go ", turn))), append(grew, human(fmt.Sprint("go ", turn)))
			from := len(plain)
			for i := range rapid.IntRange(1, most).Draw(t, "steps") {
				step := rounds(rapid.SampledFrom([]string{"A:1", "A:2", "B:1", "C:1", "D:1"}).Draw(t, "step"))
				if ids {
					step = named(step, fmt.Sprint(turn, ".", i, ":"))
				}
				plain = append(plain, step...)
				shown := join(grew, joined(plain[from:], 0))
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					want, got := alone.request(plain), grown.request(shown)
					if want.Level() != got.Level() || fresh(want) != fresh(got) {
						t.Fatalf("turn %d, step %d: %+v, want %+v", turn, i, got, want)
					}
				}
			}
			grew = join(grew, joined(plain[from:], 0))
		}
	})
}
