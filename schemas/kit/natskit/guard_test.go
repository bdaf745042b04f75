package natskit

import (
	"context"
	"fmt"
	"testing"
)

// A server that answers late where every goroutine waits for a processor is not restarted
// at once: that would take all its connections away, and make no processor free.
func TestLateAnswersOfAStarvedServerAreNoFaultOfItsDisk(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("KV_LOOP_LIMITS: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		fault   error
		starved bool
		looks   int
	}{
		{late, true, guardLooksLate},
		{late, false, guardLooks},
		{errDisabled, true, guardLooks},
	} {
		if n := looksFor(c.fault, c.starved); n != c.looks {
			t.Errorf("%v, starved %t: %d looks, want %d", c.fault, c.starved, n, c.looks)
		}
	}
}
