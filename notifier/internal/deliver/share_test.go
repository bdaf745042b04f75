package deliver

import (
	"testing"
	"time"
)

func TestUsageIsThatOfRecordsWhichHaveNotExpired(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	u := newUsage()
	u.put("a", 1000, now.Add(time.Minute))
	u.put("a", 500, now.Add(time.Minute)) // written again
	u.put("b", 300, now.Add(time.Hour))
	u.put("c", 100, now.Add(time.Hour))
	u.put("c", 0, now) // removed
	const overhead = recordOverhead + len("a")
	if got, want := u.bytes(now, 1), float64(800+2*overhead); got != want {
		t.Errorf("%g bytes, want %g", got, want)
	}
	if got, want := u.bytes(now.Add(2*time.Minute), 1), float64(300+overhead); got != want {
		t.Errorf("after one has expired: %g bytes, want %g", got, want)
	}
	u.clear()
	if got := u.bytes(now, 1); got != 0 {
		t.Errorf("after clear: %g bytes", got)
	}
}
