package chaos

import (
	"os"
	"testing"
	"time"
)

// Followers wait 4 to 9 s before they elect a leader in place of one that was
// killed; checks go on with it.
func TestChecksGoOnAsSoonAsTheCountersHaveALeaderAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers and two elections")
	}
	t.Setenv(roleVariable, "unloop")
	c, err := startCluster(t.Context(), os.Args[0], t.TempDir(), 3, checkTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	for _, f := range leaderFaults {
		seen := &tally{loops: map[string]bool{}}
		if !c.exactAfter(t.Context(), seen) {
			t.Fatalf("before %s: loops are not stopped", f.name)
		}
		guarded, err := c.through(t.Context(), f, 0, seen)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: JetStream takes writes after %s, loops are stopped after %s", f.name, seen.elected.Round(time.Millisecond), guarded.Round(time.Millisecond))
		if beyond := guarded - seen.elected; beyond > guardedWithin {
			t.Errorf("%s: loops are stopped %s after JetStream takes writes", f.name, beyond)
		}
		if lost, err := c.unannounced(t.Context(), seen); lost > 0 || err != nil {
			t.Errorf("%s: %d events lost, %v", f.name, lost, err)
		}
	}
}
