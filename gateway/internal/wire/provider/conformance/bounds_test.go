package conformance

import (
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// What is allocated depends on what is asked for, and not on how long the body is.
// Not parallel: it counts allocations.
func TestAllocationsDoNotGrowWithTheBody(t *testing.T) {
	for _, p := range all {
		allocations := func(size int) float64 {
			c := session(size)
			c.System = "You fix code."
			body := Formats[p.Name()](c)
			return testing.AllocsPerRun(5, func() {
				if _, err := p.Parse(body, provider.Options{Tail: 3, Items: 20}); err != nil {
					t.Error(err)
				}
			})
		}
		if small, large := allocations(256<<10), allocations(4<<20); large > small+10 {
			t.Errorf("%s: %v allocations for 256 KB, %v for 4 MB", p.Name(), small, large)
		}
	}
}
