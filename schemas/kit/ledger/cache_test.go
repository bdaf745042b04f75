package ledger

import (
	"fmt"
	"testing"
)

func TestCacheIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	const limit, size = 10_000, 96
	c := newCache[int](limit)
	for i := range 1000 {
		c.put(fmt.Sprintf("%04d", i), i, size)
		if held := (len(c.young) + len(c.old)) * (size + 4); held > limit {
			t.Fatalf("%d bytes are held after %d values, at most %d may be", held, i+1, limit)
		}
		for past := range 50 { // half of the limit
			if v, ok := c.get(fmt.Sprintf("%04d", max(i-past, 0))); !ok || v != max(i-past, 0) {
				t.Fatalf("value %d of %d: %d, %t", i-past, i, v, ok)
			}
		}
	}
}

func TestValuesThatArePutAgainTakeTheirPlaceOnce(t *testing.T) {
	t.Parallel()
	c := newCache[int](1000)
	c.put("quiet", 1, 100)
	for i := range 1000 {
		c.put("busy", i, 300)
	}
	if _, ok := c.get("quiet"); !ok || c.used > 500 {
		t.Errorf("one busy key took %d bytes and another's place", c.used)
	}
}

func TestValueThatIsLargerThanTheCacheIsHeldAlone(t *testing.T) {
	t.Parallel()
	c := newCache[int](100)
	for i := range 3 {
		c.put(fmt.Sprint(i), i, 1000)
	}
	if len(c.young)+len(c.old) > 2 {
		t.Errorf("%d values are held", len(c.young)+len(c.old))
	}
}
