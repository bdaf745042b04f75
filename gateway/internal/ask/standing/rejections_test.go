package standing

import (
	"fmt"
	"testing"
	"time"
)

func TestRejectionsCountWhoComesBack(t *testing.T) {
	t.Parallel()
	var rejection Rejections
	who, other := Conversation{"caller", "session"}, Conversation{"caller", "other"}
	at := time.UnixMilli(1_700_000_000_000)
	next := func(after time.Duration) int {
		at = at.Add(after)
		times := rejection.Times(at, who)
		rejection.Answered(at.Add(time.Millisecond), who, times)
		at = at.Add(time.Millisecond)
		return times
	}
	for i, c := range []struct {
		after time.Duration
		want  int
	}{{0, 0}, {time.Second, 1}, {time.Minute, 2}, {rejectionFor - time.Second, 3}, {time.Second, 3}, {rejectionFor, 0}} {
		if got := next(c.after); got != c.want {
			t.Errorf("request %d: came back %d times, want %d", i, got, c.want)
		}
	}
	if got := rejection.Times(at, other); got != 0 {
		t.Errorf("another conversation came back %d times", got)
	}
}

func TestRequestsThatWereOnTheirWayDoNotComeBack(t *testing.T) {
	t.Parallel()
	var rejection Rejections
	who, at := Conversation{"caller", "session"}, time.UnixMilli(1_700_000_000_000)
	for range 20 { // all were sent before the first was answered
		times := rejection.Times(at, who)
		if times != 0 {
			t.Fatalf("came back %d times", times)
		}
		rejection.Answered(at.Add(time.Second), who, times)
	}
	if got := rejection.Times(at.Add(2*time.Second), who); got != 1 {
		t.Errorf("afterwards: %d", got)
	}
}

func TestRejectionsAreBounded(t *testing.T) {
	t.Parallel()
	var rejection Rejections
	at := time.UnixMilli(1_700_000_000_000)
	for i := range maxRejections + 5 {
		rejection.Answered(at, Conversation{"caller", fmt.Sprint(i)}, 0)
	}
	if n := len(rejection.known); n > maxRejections {
		t.Errorf("%d conversations are known", n)
	}
	for i := range maxRejections {
		rejection.Answered(at.Add(rejectionFor), Conversation{"caller", fmt.Sprint("new ", i)}, 0)
	}
	if got := rejection.Times(at.Add(rejectionFor+1), Conversation{"caller", fmt.Sprint("new ", maxRejections-1)}); got != 1 {
		t.Errorf("the newest is forgotten: %d", got)
	}
}
