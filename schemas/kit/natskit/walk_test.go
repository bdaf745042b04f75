package natskit

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever comes and goes between pages, no key is missed that is there all the time, and none
// is taken twice.
func TestAWalkMissesNoKeyThatStays(t *testing.T) {
	t.Parallel()
	w, limit := walker{overlap: 5, back: 20}, 50
	key := func(n int) string { return fmt.Sprintf("%06d", n) }
	rapid.Check(t, func(rt *rapid.T) {
		const size = 400
		there, stays := map[string]bool{}, map[string]bool{}
		every := rapid.IntRange(2, 50).Draw(rt, "every which stays")
		for n := range size {
			there[key(2*n)] = true
			if n%every == 0 {
				stays[key(2*n)] = true
			}
		}
		asked := 0
		ask := func(offset int) (page, error) {
			if asked++; asked > 1000 {
				rt.Fatal("the walk does not end")
			}
			if asked > 1 {
				from := rapid.IntRange(0, size).Draw(rt, "from")
				for n := range rapid.SampledFrom([]int{0, 10, limit, size}).Draw(rt, "changes") {
					if k := key(2 * (from + n)); !stays[k] {
						delete(there, k)
					}
					if n%7 == 0 {
						there[key(2*(from+n)+1)] = true
					}
				}
			}
			all := slices.Sorted(maps.Keys(there))
			begin := min(offset, len(all))
			return page{slices.Clone(all[begin:min(begin+limit, len(all))]), len(all)}, nil
		}
		taken := map[string]int{}
		err := w.walk(ask, func(keys []string) error {
			for _, k := range keys {
				taken[k]++
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		for k := range stays {
			if taken[k] != 1 {
				rt.Fatalf("%s was taken %d times", k, taken[k])
			}
		}
		for k, n := range taken {
			if n > 1 {
				rt.Fatalf("%s was taken %d times", k, n)
			}
		}
	})
}
