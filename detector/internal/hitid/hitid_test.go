package hitid

import (
	"fmt"
	"testing"
)

func TestTheNewestHitsAreRemembered(t *testing.T) {
	t.Parallel()
	var s IDs
	for i := range 3 * MaxIDs {
		id := fmt.Sprintf("%08d", i)
		if s.Has(id) {
			t.Fatalf("%s is there before", id)
		}
		s = s.With(id)
		if s.With(id) != s {
			t.Errorf("%s is remembered twice", id)
		}
		if !s.Has(id) || len(s) > MaxIDs*IDSize {
			t.Fatalf("after %s: %q", id, s)
		}
	}
	if s.Has("00000000") || !s.Has(fmt.Sprintf("%08d", 2*MaxIDs)) {
		t.Errorf("remembered: %q", s)
	}
}

func TestHitsWithoutAnIDAreNotRemembered(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "short", "one that is too long"} {
		if s := IDs("12345678"); s.With(id) != s || s.Has(id) {
			t.Errorf("%q is remembered", id)
		}
	}
	if broken := IDs("123"); broken.Has("12345678") || broken.With("12345678") != broken {
		t.Error("a record that is no list of ids")
	}
	if IDs("1234567812345678").Has("23456781") {
		t.Error("an id is found across two others")
	}
}
