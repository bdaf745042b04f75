package decide

import (
	"fmt"
	"testing"
	"time"
)

// A caller gets half of the room at most, and what its records took once they ended.
func TestACallerLeavesRoomToOthers(t *testing.T) {
	t.Parallel()
	const room, size, lasts = 100 << 20, 1 << 10, 24 * time.Hour
	var s shares
	left, now := int64(room), time.Now()
	take := func(caller string) (taken int64) {
		for left >= size && s.grant(caller, size, left, lasts, now) {
			taken, left = taken+size, left-size
		}
		return taken
	}
	first, second := take("one"), take("another")
	if first < room/2-2*size || first > room/2+2*size || second < room/4-2*size || take("one") > 0 {
		t.Errorf("one got %d, another %d, of %d", first, second, int64(room))
	}
	now, left = now.Add(lasts+shareStep), left+first
	if again := take("one"); again < first/2 {
		t.Errorf("after its records ended, it got %d, before %d", again, first)
	}
}

func TestACallerHasASureShare(t *testing.T) {
	t.Parallel()
	var s shares
	if !s.grant("one", minShare, 0, time.Hour, time.Now()) || s.grant("one", 1, 0, time.Hour, time.Now()) {
		t.Error("a caller's sure share is another one")
	}
	for i := range maxHolders + 5 {
		s.grant(fmt.Sprint(i), 1, 0, time.Hour, time.Now())
	}
	if len(s.held) != maxHolders {
		t.Errorf("%d callers are known", len(s.held))
	}
}
