package fleet

import (
	"fmt"
	"testing"
	"time"
)

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func hearing(c *clock, names ...string) *Fleet {
	f := New(c.now)
	for _, name := range names {
		f.Hear(name)
	}
	return f
}

func TestAllChooseTheSameDetectorAndShareTheKeys(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	one, other := hearing(c, "a", "b", "c", "d"), hearing(c, "d", "c", "b", "a")
	const keys = 4000
	first, second := map[string]int{}, map[string]int{}
	for i := range keys {
		key := Hash(fmt.Sprint("key ", i))
		choice := one.Choose(key)
		if choice != other.Choose(key) || choice.First == choice.Second || choice.N != 4 {
			t.Fatalf("%+v and %+v", choice, other.Choose(key))
		}
		first[choice.First]++
		second[choice.Second]++
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, n := range []int{first[name], second[name]} {
			if n < keys/4*85/100 || n > keys/4*115/100 {
				t.Errorf("%s has %d and %d of %d keys", name, first[name], second[name], keys)
			}
		}
	}
}

func TestADetectorThatGoesMovesItsOwnKeysAlone(t *testing.T) {
	t.Parallel()
	f := hearing(&clock{time.Now()}, "a", "b", "c", "d")
	for i := range 1000 {
		key := Hash(fmt.Sprint(i))
		before, after := f.Choose(key), f.Choose(key, "a")
		want := before.First
		if want == "a" {
			want = before.Second
		}
		if after.First != want || after.N != 3 {
			t.Fatalf("%+v becomes %+v", before, after)
		}
	}
}

func TestDetectorsThatDoNotBeatAreNotChosen(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(*clock, *Fleet){
		"it is gone":         func(_ *clock, f *Fleet) { f.Gone("a") },
		"it does not answer": func(_ *clock, f *Fleet) { f.Avoid("a", time.Hour) },
		"it is silent":       func(c *clock, _ *Fleet) { c.at = c.at.Add(SilentAfter) },
	} {
		c := &clock{time.Now()}
		f := hearing(c, "a")
		goes(c, f)
		if got := f.Choose(1); got != (Choice{}) {
			t.Errorf("%s: %+v", name, got)
		}
		if f.Unknown() {
			t.Errorf("%s: no detector was heard", name)
		}
		c.at = c.at.Add(time.Hour)
		f.Hear("a")
		if got := f.Choose(1); got.First != "a" {
			t.Errorf("%s, and it comes back: %+v", name, got)
		}
	}
}

func TestKnownDetectorsAreBounded(t *testing.T) {
	t.Parallel()
	f := hearing(&clock{time.Now()})
	for i := range maxKnown + 10 {
		f.Hear(fmt.Sprint("d", i))
	}
	f.Hear("not a name")
	if len(f.known) != maxKnown {
		t.Errorf("%d are known; at most %d may be", len(f.known), maxKnown)
	}
}

func TestDetectorsThatAreSilentForLongAreForgotten(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	f := hearing(c, "old")
	c.at = c.at.Add(forgetAfter)
	f.Hear("new")
	if f.known["old"] != nil || len(f.known) != 1 {
		t.Errorf("%d are known", len(f.known))
	}
	f.Gone("unknown")
	f.Avoid("unknown", time.Hour)
	if f.Gone("new"); !f.Silent("new") || !f.Silent("unknown") || len(f.known) != 1 {
		t.Error("a detector without subscription is still asked")
	}
}

func TestTheFleetChangesWhenADetectorComesBack(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	f := hearing(c, "a", "b")
	came := c.at
	c.at = c.at.Add(SilentAfter - 1)
	if f.Hear("a"); !f.Changed().Equal(came) {
		t.Error("a beat of a detector that is there changes the fleet")
	}
	c.at = c.at.Add(1)
	if f.Hear("b"); !f.Changed().Equal(c.at) {
		t.Error("a detector that was silent came back, and the fleet is the same")
	}
}
