package message

import (
	"fmt"
	"strings"
	"testing"
)

func TestAFullCacheForgetsTheOldest(t *testing.T) {
	t.Parallel()
	cache := NewCache()
	d := Digester{Cache: cache}
	for i := range 20_000 {
		value := fmt.Appendf(nil, "%q", fmt.Sprint(i, strings.Repeat("x", 600)))
		if d.Message(System, []Part{{Kind: Text, Value: value}}).Text.IsZero() {
			t.Fatal("no digest")
		}
	}
	if n := len(cache.readings.young) + len(cache.readings.old); n > 2*16_384 || n < 16_384 {
		t.Errorf("%d entries are kept", n)
	}
}

func TestARepeatedEntryStaysInTheCache(t *testing.T) {
	t.Parallel()
	cache := newGenerations[Reading]()
	cache.set(CacheKey{1}, Reading{Long: true})
	for i := range uint64(maxEntries + 1) { // the first generation is old now
		cache.set(CacheKey{2, i}, Reading{})
	}
	for range 2 {
		if f, known := cache.get(CacheKey{1}); !known || !f.Long {
			t.Fatalf("%+v, %v", f, known)
		}
	}
	if _, young := cache.young[CacheKey{1}]; !young {
		t.Error("an old entry that is used does not become young")
	}
	if _, known := cache.get(CacheKey{3}); known {
		t.Error("an entry that was never set is there")
	}
}

func TestEntriesHaveNoLongNames(t *testing.T) {
	t.Parallel()
	c := NewCache()
	long := strings.Repeat("x", maxName+1)
	parts := []Part{{Kind: Text, Value: []byte("text")}}
	for range 2 {
		c.Call(callWay, c.Sums(parts), func() ToolCall { return ToolCall{Tool: long} })
		c.Exchange(c.Sums(parts), func() Exchange { return Exchange{Tool: long[1:], Mark: "<"} })
	}
	if n := len(c.calls.young) + len(c.exchanges.young); n > 0 {
		t.Errorf("%d entries with long names are kept", n)
	}
}

func TestAPartIsHashedOnce(t *testing.T) {
	t.Parallel()
	c := NewCache()
	parts := []Part{{Kind: Text, Name: []byte("name"), Value: []byte(strings.Repeat("x", minCached))}, {Kind: Text, Value: []byte("y")}}
	first := c.Sums(parts)
	parts[0].Value[0]++
	if again := c.Sums(parts[:1], parts[1:]); again != first {
		t.Error("a part whose sum is known is hashed again")
	}
	changed := []Part{{Kind: Text, Name: parts[0].Name, Value: parts[0].Value}, parts[1]}
	if c.Sums(changed) == first {
		t.Error("another value has the same sums")
	}
	if known := []Part{{Kind: Call, Known: &ToolCall{}}}; c.Sums(known) != (CacheKey{}) || (*Cache)(nil).Sums(parts) != (CacheKey{}) {
		t.Error("sums of a call that is not in the body, or without a cache")
	}
}
