package blocks

import (
	"fmt"
	"testing"
	"time"
)

func TestToldCountsWhoComesBack(t *testing.T) {
	t.Parallel()
	var told Told
	who, other := Conversation{"caller", "session"}, Conversation{"caller", "other"}
	at := time.UnixMilli(1_700_000_000_000)
	next := func(after time.Duration) int {
		at = at.Add(after)
		times := told.Times(at, who)
		told.Answered(at.Add(time.Millisecond), who, times)
		at = at.Add(time.Millisecond)
		return times
	}
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {time.Second, 1}, {time.Minute, 2}, {toldFor - time.Second, 3}, {time.Second, 3}, {toldFor, 0}} {
		if got := next(c.after); got != c.want {
			t.Errorf("request %d: came back %d times, want %d", i, got, c.want)
		}
	}
	if got := told.Times(at, other); got != 0 {
		t.Errorf("another conversation came back %d times", got)
	}
}

func TestRequestsThatWereOnTheirWayDoNotComeBack(t *testing.T) {
	t.Parallel()
	var told Told
	who, at := Conversation{"caller", "session"}, time.UnixMilli(1_700_000_000_000)
	for range 20 { // all were sent before the first was answered
		times := told.Times(at, who)
		if times != 0 {
			t.Fatalf("came back %d times", times)
		}
		told.Answered(at.Add(time.Second), who, times)
	}
	if got := told.Times(at.Add(2*time.Second), who); got != 1 {
		t.Errorf("afterwards: %d", got)
	}
}

func TestToldIsBounded(t *testing.T) {
	t.Parallel()
	var told Told
	at := time.UnixMilli(1_700_000_000_000)
	for i := range maxTold + 5 {
		told.Answered(at, Conversation{"caller", fmt.Sprint(i)}, 0)
	}
	if n := len(told.known); n > maxTold {
		t.Errorf("%d conversations are known", n)
	}
	for i := range maxTold {
		told.Answered(at.Add(toldFor), Conversation{"caller", fmt.Sprint("new ", i)}, 0)
	}
	if got := told.Times(at.Add(toldFor+1), Conversation{"caller", fmt.Sprint("new ", maxTold-1)}); got != 1 {
		t.Errorf("the newest is forgotten: %d", got)
	}
}
