package service

import (
	"math"
	"testing"
)

func TestHeadroomIsForProcessesThatMayBeLarge(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]bool{
		math.MaxInt64: true, // no limit
		1 << 30:       true,
		512 << 20:     true,
		256 << 20:     false,
		64 << 20:      false,
	} {
		if got := fits(limit); got != want {
			t.Errorf("with a limit of %d MiB: %v, want %v", limit>>20, got, want)
		}
	}
}
