package peers

import (
	"fmt"
	"testing"
	"time"
)

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// cluster returns detectors that know one another, at the given round trips.
func cluster(c *clock, roundTrips map[string]time.Duration) map[string]*Peers {
	all := map[string]*Peers{}
	for id := range roundTrips {
		all[id] = New(id, c.now)
		for other, roundTrip := range roundTrips {
			all[id].Heard(other, roundTrip)
		}
	}
	return all
}

const bucket = "B"

// owner returns whom all detectors take for a key's owner.
func owner(t *testing.T, all map[string]*Peers, key string) string {
	t.Helper()
	owner := ""
	for id, p := range all {
		p.Contended(bucket, key)
		says := p.Owner(bucket, key)
		if says == "" {
			says = id
		}
		if owner != "" && says != owner {
			t.Fatalf("%s: %s says %s, another %s", key, id, says, owner)
		}
		owner = says
	}
	return owner
}

func TestAllAgreeOnAnOwnerAndShareTheKeys(t *testing.T) {
	t.Parallel()
	all := cluster(&clock{time.Now()}, map[string]time.Duration{"a": 100, "b": 200, "c": 300})
	owned := map[string]int{}
	for i := range 300 {
		owned[owner(t, all, fmt.Sprint("key ", i))]++
	}
	for id := range all {
		if owned[id] < 50 {
			t.Errorf("%s owns %d of 300 keys", id, owned[id])
		}
	}
}

func TestDistantDetectorsOwnNothingBesideNearOnes(t *testing.T) {
	t.Parallel()
	all := cluster(&clock{time.Now()}, map[string]time.Duration{"near": 200 * time.Microsecond, "far": 3 * time.Millisecond})
	for i := range 50 {
		if got := owner(t, all, fmt.Sprint("key ", i)); got != "near" {
			t.Fatalf("%s owns key %d", got, i)
		}
	}
}

func TestOnlyContendedKeysHaveAnOwner(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	far := cluster(c, map[string]time.Duration{"near": 0, "far": time.Second})["far"]
	if got := far.Owner(bucket, "k"); got != "" {
		t.Errorf("%s owns a key without conflicts", got)
	}
	far.Contended(bucket, "k")
	if got := far.Owner(bucket, "k"); got != "near" {
		t.Errorf("%q owns the contended key", got)
	}
	if got := far.Owner("another bucket", "k"); got != "" {
		t.Errorf("%s owns the same key of another bucket", got)
	}
	c.at = c.at.Add(hot + time.Millisecond)
	far.Heard("near", 0)
	if got := far.Owner(bucket, "k"); got != "" {
		t.Errorf("%s owns the key for ever", got)
	}
}

func TestDetectorsThatAreGoneOwnNothing(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(*clock, *Peers){
		"it says so":            func(_ *clock, p *Peers) { p.Left("near") },
		"it does not answer":    func(_ *clock, p *Peers) { p.Avoid("near") },
		"it is silent":          func(c *clock, _ *Peers) { c.at = c.at.Add(silence + time.Millisecond) },
		"it was never there":    func(_ *clock, p *Peers) { p.Left("near"); p.Avoid("near") },
		"nobody is left at all": func(_ *clock, p *Peers) { p.Left("near"); p.Left("far") },
	} {
		c := &clock{time.Now()}
		far := cluster(c, map[string]time.Duration{"near": 0, "far": time.Second})["far"]
		far.Contended(bucket, "k")
		goes(c, far)
		if got := far.Owner(bucket, "k"); got != "" {
			t.Errorf("%s: %s owns the key", name, got)
		}
	}
}

func TestKeysThatAreRememberedAreBounded(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	p := cluster(c, map[string]time.Duration{"near": 0, "far": time.Second})["far"]
	for i := range maxHot + 1 {
		p.Contended(bucket, fmt.Sprint(i))
	}
	if len(p.hot) != maxHot {
		t.Errorf("%d keys", len(p.hot))
	}
	owner := func(key int) string {
		p.Heard("near", 0)
		return p.Owner(bucket, fmt.Sprint(key))
	}
	if got := owner(maxHot); got != "" {
		t.Errorf("%s owns a key more than can be remembered", got)
	}
	c.at = c.at.Add(hot / 2)
	p.Contended(bucket, "1") // is remembered for longer
	c.at = c.at.Add(hot/2 + time.Millisecond)
	p.Contended(bucket, fmt.Sprint(maxHot))
	for key, want := range map[int]string{1: "near", 2: "", maxHot: "near"} {
		if got := owner(key); got != want {
			t.Errorf("key %d belongs to %q, want %q", key, got, want)
		}
	}
}
