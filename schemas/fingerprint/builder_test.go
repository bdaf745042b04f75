package fingerprint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas/fingerprint"
)

func TestFieldsCannotRunIntoEachOther(t *testing.T) {
	t.Parallel()
	type list = []string
	seen := map[fingerprint.Fingerprint]list{}
	for _, fields := range []list{
		{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"a", "", "b"}, {"ab", ""}, {"", "ab"}, {"\x00\x00\x00\x00\x00\x00\x00\x01a"},
	} {
		b := fingerprint.New("test/1")
		for _, f := range fields {
			b.String(f)
		}
		sum := b.Sum()
		if first, dup := seen[sum]; dup {
			t.Errorf("%q and %q have one fingerprint", first, fields)
		}
		seen[sum] = fields
	}
}

func TestDomainsKeepFingerprintsApart(t *testing.T) {
	t.Parallel()
	if fingerprint.New("a").String("x").Sum() == fingerprint.New("b").String("x").Sum() {
		t.Error("two domains gave one fingerprint")
	}
}

// The values are fixed by the stored state and events of earlier versions: a
// change here makes every counter start again.
func TestFingerprintsStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	if got, want := fingerprint.New("unloop/test/1").String("field").Number(3).Sum().String(),
		"279088fd05ba6b464e505c6974107ae0e3b5f6fc4efcc38d6c6ab4bb569a181c"; got != want {
		t.Errorf("fingerprint is %s, want %s", got, want)
	}
	if got, want := digest(t, `{"b":[1.50,"x",true,null],"a":{}}`).String(), "822b3d9fe0d845ba19302965b8ffe494"; got != want {
		t.Errorf("digest is %s, want %s", got, want)
	}
}

// Fields are hashed alike whether they have room in the builder or not.
func TestFieldsOfAnyLengthAreHashedBehindTheirLengths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, plain := fingerprint.New("d"), []byte("\x00\x00\x00\x00\x00\x00\x00\x01d")
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 300), 0, 6).Draw(t, "lengths") {
			field := bytes.Repeat([]byte("x"), n)
			if n%2 == 0 {
				b.Bytes(field)
			} else {
				b.String(string(field))
			}
			plain = append(binary.BigEndian.AppendUint64(plain, uint64(n)), field...)
			if got, want := b.Sum(), fingerprint.Fingerprint(sha256.Sum256(plain)); got != want {
				t.Fatalf("%d bytes of fields are hashed as %v, want %v", len(plain), got, want)
			}
		}
	})
}

func TestChainTellsSequencesApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seq := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 6)
		chain := func(items []string) (d fingerprint.Digest) {
			for _, it := range items {
				d = fingerprint.Chain(d, fingerprint.String([]byte(it)))
			}
			return d
		}
		x, y := seq.Draw(t, "x"), seq.Draw(t, "y")
		same := len(x) == len(y)
		for i := 0; same && i < len(x); i++ {
			same = x[i] == y[i]
		}
		if (chain(x) == chain(y)) != same {
			t.Fatalf("%v and %v", x, y)
		}
	})
}

func TestARoundIsTheSetOfItsCalls(t *testing.T) {
	t.Parallel()
	a, b := fingerprint.String([]byte("a")), fingerprint.String([]byte("b"))
	list := func(d ...fingerprint.Digest) []fingerprint.Digest { return d }
	if fingerprint.RoundKey(list(a, b)) != fingerprint.RoundKey(list(b, a, b)) || fingerprint.RoundKey(list(a, a)) != fingerprint.RoundKey(list(a)) {
		t.Error("order and number of calls must not matter")
	}
	if fingerprint.RoundKey(list(a)) == fingerprint.RoundKey(list(b)) || fingerprint.RoundKey(list(a)) == fingerprint.RoundKey(list(a, b)) ||
		fingerprint.RoundKey(list(a)) == fingerprint.HumanKey(a) {
		t.Error("different rounds and messages must differ")
	}
	calls := list(b, a)
	fingerprint.RoundKey(calls)
	if calls[0] != b {
		t.Error("the caller's list was changed")
	}
}
