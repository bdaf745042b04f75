package handover

import (
	"fmt"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/fleet"
)

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

const bucket = "B"

// self returns the owners as one of the named detectors sees them.
func self(c *clock, name string, others ...string) *Owners {
	f := fleet.New(c.now)
	f.Hear(name)
	for _, other := range others {
		f.Hear(other)
	}
	return NewOwners(name, f, c.now)
}

// foreign returns a key that belongs to the other detector.
func foreign(o *Owners) string {
	for i := 0; ; i++ {
		key := fmt.Sprint("key ", i)
		if o.fleet.Choose(fleet.Hash(bucket+"/"+key)).First != o.self {
			return key
		}
	}
}

func TestAllAgreeOnTheOwnerOfAContendedKey(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	all := []*Owners{self(c, "a", "b", "c"), self(c, "b", "a", "c"), self(c, "c", "a", "b")}
	for i := range 100 {
		key, owners := fmt.Sprint(i), map[string]int{}
		for _, o := range all {
			o.Contended(bucket, key)
			if owner := o.Owner(bucket, key); owner != "" {
				owners[owner]++
			}
		}
		if len(owners) != 1 {
			t.Fatalf("owners of key %s, as the others see them: %v", key, owners)
		}
		for owner, n := range owners {
			if n != 2 {
				t.Fatalf("%d take %s for the owner of key %s; want the two others", n, owner, key)
			}
		}
	}
}

func TestOnlyContendedKeysHaveAnOwner(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	o := self(c, "a", "b")
	key := foreign(o)
	if got := o.Owner(bucket, key); got != "" {
		t.Errorf("%s owns a key without conflicts", got)
	}
	o.Contended(bucket, key)
	if got := o.Owner(bucket, key); got != "b" {
		t.Errorf("%q owns the contended key", got)
	}
	if got := o.Owner("another bucket", key); got != "" {
		t.Errorf("%s owns the same key of another bucket", got)
	}
	c.at = c.at.Add(hot + time.Millisecond)
	o.fleet.Hear("b")
	if got := o.Owner(bucket, key); got != "" {
		t.Errorf("%s owns the key for ever", got)
	}
}

func TestDetectorsThatAreGoneOwnNothing(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(*clock, *Owners){
		"it does not answer": func(_ *clock, o *Owners) { o.fleet.Avoid("b", hot) },
		"it is silent":       func(c *clock, _ *Owners) { c.at = c.at.Add(fleet.SilentAfter) },
		"nobody subscribes":  func(_ *clock, o *Owners) { o.fleet.Gone("b") },
	} {
		c := &clock{time.Now()}
		o := self(c, "a", "b")
		key := foreign(o)
		o.Contended(bucket, key)
		goes(c, o)
		if got := o.Owner(bucket, key); got != "" {
			t.Errorf("%s: %s owns the key", name, got)
		}
	}
}

func TestKeysThatAreRememberedAreBounded(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	o := self(c, "a", "b")
	for i := range maxHot {
		o.Contended("other", fmt.Sprint(i))
	}
	key := foreign(o)
	if o.Contended(bucket, key); o.Owner(bucket, key) != "" || len(o.hot) != maxHot {
		t.Errorf("a key more than can be remembered has an owner, or %d are remembered", len(o.hot))
	}
	c.at = c.at.Add(hot / 2)
	o.Contended("other", "1") // is remembered for longer
	c.at = c.at.Add(hot/2 + time.Millisecond)
	o.fleet.Hear("b")
	if o.Contended(bucket, key); o.Owner(bucket, key) != "b" || len(o.hot) != 2 {
		t.Errorf("%q owns the key, and %d are remembered", o.Owner(bucket, key), len(o.hot))
	}
}
