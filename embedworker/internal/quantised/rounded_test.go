package quantised

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestRoundedIsTheNearestMultiple(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		x, unit := float32(2*r.Float64()-1), []float32{0.5, 1, 127, 2, 32767}[r.IntN(5)]
		if r.IntN(4) == 0 {
			x = float32(r.IntN(1000)-500) / 2 / unit // half of a unit more or less
		}
		if got, want := rounded(x, unit), int(math.RoundToEven(float64(x*unit))); got != want {
			t.Fatalf("%g by %g: %d, want %d", x, unit, got, want)
		}
	}
}
