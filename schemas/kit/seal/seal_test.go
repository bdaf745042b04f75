package seal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var at = time.Date(2026, 5, 22, 14, 30, 0, 7, time.UTC)

// signer returns a new signer and the trust in it.
func signer(t *testing.T) (*Signer, Trust) {
	t.Helper()
	seed, public, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	by, err := NewSigner(seed + "\n")
	if err != nil || by.Public() != public {
		t.Fatalf("public key %s, want %s: %v", by.Public(), public, err)
	}
	trust, err := NewTrust(public)
	if err != nil || !trust.Checks() {
		t.Fatalf("trust: %v", err)
	}
	return by, trust
}

// sealed returns a record of bucket B.
func sealed(t *testing.T, by *Signer, key, content string, at time.Time) []byte {
	t.Helper()
	value, err := by.Seal("B", key, at, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestASealCoversItsRecord(t *testing.T) {
	t.Parallel()
	by, trust := signer(t)
	other, _ := signer(t)
	good := sealed(t, by, "k", "a\nb", at)
	for name, c := range map[string]struct {
		bucket, key string
		value       []byte
		want        error
	}{
		"as it was sealed": {"B", "k", good, nil},
		"another bucket":   {"C", "k", good, ErrForged},
		"another key":      {"B", "l", good, ErrForged},
		"moved bytes":      {"Bk", "", good, ErrForged},
		"another content":  {"B", "k", append(slices.Clone(good), 'c'), ErrForged},
		"another time":     {"B", "k", bytes.Replace(good, fmt.Append(nil, at.UnixNano()), fmt.Append(nil, at.UnixNano()+1), 1), ErrForged},
		"another seed":     {"B", "k", sealed(t, other, "k", "a\nb", at), ErrForged},
		"no seal":          {"B", "k", []byte("a\nb"), ErrUnsealed},
		"a broken seal":    {"B", "k", []byte(mark + " 1 !\na"), ErrUnsealed},
		"nothing":          {"B", "k", nil, ErrUnsealed},
	} {
		r, err := trust.Open(c.bucket, c.key, c.value)
		if !errors.Is(err, c.want) || err == nil && (string(r.Content) != "a\nb" || !r.At.Equal(at)) {
			t.Errorf("%s: %+v, %v; want %v", name, r, err, c.want)
		}
	}
	if r, err := (Trust{}).Open("C", "k", good); err != nil || string(r.Content) != "a\nb" || !r.Sealed {
		t.Errorf("who needs no seal reads %+v, %v", r, err)
	}
	var none *Signer
	if value := sealed(t, none, "k", "a", at); string(value) != "a" || none.Public() != "" {
		t.Errorf("without a seed the record is %q", value)
	}
}

func TestKeysThatCantBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "seal.nk")
	if _, err := ReadSigner(file); !errors.Is(err, ErrKey) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	const user = "SUAGMJH5XLGZKQQWAWKRZJIGMOU4HPFUYLXJMXOO5NLFEO2OOQJ5LPRDPM"
	for _, text := range []string{"", "SO", user} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSigner(file); !errors.Is(err, ErrKey) || text != "" && bytes.Contains([]byte(err.Error()), []byte(text+"X")) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := NewTrust("O", "x"); !errors.Is(err, ErrKey) {
		t.Errorf("public keys: %v", err)
	}
}

// entry is a stored entry.
type entry struct {
	key   string
	value []byte
	op    jetstream.KeyValueOp
}

func (e entry) Bucket() string                  { return "B" }
func (e entry) Key() string                     { return e.key }
func (e entry) Value() []byte                   { return e.value }
func (e entry) Revision() uint64                { return 1 }
func (e entry) Created() time.Time              { return at }
func (e entry) Delta() uint64                   { return 0 }
func (e entry) Operation() jetstream.KeyValueOp { return e.op }

func TestTheNewestGoodRecordIsInForce(t *testing.T) {
	t.Parallel()
	by, trust := signer(t)
	put := func(content string, seconds int) entry {
		return entry{key: "k", value: sealed(t, by, "k", content, at.Add(time.Duration(seconds)*time.Second))}
	}
	raw := entry{key: "k", value: []byte("raw")}
	gone := entry{key: "k", op: jetstream.KeyValueDelete}
	for name, c := range map[string]struct {
		before, entries []entry
		all             bool
		want            string
		fault           error
	}{
		"a good one":                   {nil, []entry{put("a", 1)}, true, "a", nil},
		"a later one":                  {[]entry{put("a", 1)}, []entry{put("b", 2)}, false, "b", nil},
		"an earlier one":               {[]entry{put("b", 2)}, []entry{put("a", 1)}, false, "b", ErrOlder},
		"the same":                     {[]entry{put("b", 2)}, []entry{put("b", 2)}, false, "b", nil},
		"no seal":                      {[]entry{put("a", 1)}, []entry{raw}, false, "a", ErrUnsealed},
		"a deletion":                   {[]entry{put("a", 1)}, []entry{gone}, false, "a", ErrUnsealed},
		"nothing is stored any more":   {[]entry{put("a", 1)}, nil, true, "a", nil},
		"a later one mends it":         {[]entry{put("a", 1), raw}, []entry{put("b", 2)}, false, "b", nil},
		"the last of a history":        {nil, []entry{put("a", 1), put("b", 2), raw, gone, put("a", 1), raw}, true, "b", ErrUnsealed},
		"an empty one removes it":      {[]entry{put("a", 1)}, []entry{put("", 2)}, false, "", nil},
		"which an earlier can't undo":  {[]entry{put("a", 1), put("", 2)}, []entry{put("a", 1)}, false, "", ErrOlder},
		"a content that is not good":   {[]entry{put("a", 1)}, []entry{put("bad", 2)}, false, "a", errBad},
		"no good one":                  {nil, []entry{raw}, true, "", ErrUnsealed},
		"a content that mends a fault": {[]entry{put("bad", 1)}, []entry{put("b", 2)}, false, "b", nil},
	} {
		r := &Register{Trust: trust, Bucket: "B", Check: check}
		r.Take(entries(c.before), true)
		before, _ := r.Content("k")
		changed := r.Take(entries(c.entries), c.all)
		got, ok := r.Content("k")
		if string(got) != c.want || ok != (c.want != "") || !errors.Is(r.Faults()["k"], c.fault) || c.fault == nil && len(r.Faults()) > 0 {
			t.Errorf("%s: %q with %v, want %q with %v", name, got, r.Faults(), c.want, c.fault)
		}
		if (len(changed) > 0) != !bytes.Equal(before, got) {
			t.Errorf("%s: changed %v", name, changed)
		}
	}
}

var errBad = errors.New("bad")

func check(_ string, content []byte) error {
	if string(content) == "bad" {
		return errBad
	}
	return nil
}

func entries(all []entry) (out []jetstream.KeyValueEntry) {
	for _, e := range all {
		out = append(out, e)
	}
	return out
}

func TestWithoutKeysEveryRecordIsUsed(t *testing.T) {
	t.Parallel()
	by, _ := signer(t)
	r := &Register{Bucket: "B", Check: check}
	for _, c := range []struct {
		entry entry
		want  string
	}{
		{entry{key: "k", value: []byte("raw")}, "raw"},
		{entry{key: "k", value: sealed(t, by, "k", "sealed", at)}, "sealed"},
		{entry{key: "k", value: []byte("bad")}, "sealed"},
		{entry{key: "k", value: []byte("raw")}, "raw"},
		{entry{key: "k", op: jetstream.KeyValueDelete}, ""},
	} {
		r.Take(entries([]entry{c.entry}), false)
		if got, _ := r.Content("k"); string(got) != c.want {
			t.Errorf("%q after %+v, want %q", got, c.entry, c.want)
		}
	}
	r.Take(entries([]entry{{key: "k", value: []byte("a")}, {key: "l", value: []byte("b")}}), true)
	if changed := r.Take(entries([]entry{{key: "l", value: []byte("b")}}), true); !slices.Equal(changed, []string{"k"}) {
		t.Errorf("changed %v", changed)
	}
}

// What is over is forgotten, but not before an earlier record of its key would be over.
func TestWhatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	by, trust := signer(t)
	r := &Register{Trust: trust, Bucket: "B", Lasts: func(content []byte) time.Time {
		end, _ := time.Parse(time.RFC3339, string(content))
		return end
	}}
	long, short := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-time.Hour).Format(time.RFC3339)
	put := func(key, end string, second int) entry {
		return entry{key: key, value: sealed(t, by, key, end, at.Add(time.Duration(second)*time.Second))}
	}
	first := put("k", long, 1)
	r.Take(entries([]entry{first, put("k", short, 2), put("l", short, 1)}), true)
	if r.Take(entries([]entry{first}), false); !errors.Is(r.Faults()["k"], ErrOlder) {
		t.Errorf("an earlier record is back: %v", r.Faults())
	}
	if _, known := r.Content("l"); known {
		t.Error("what is over is kept")
	}
}

func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	_, trust := signer(t)
	r := &Register{Trust: trust, Bucket: "B"}
	for i := range 10 * maxFaults {
		r.Take(entries([]entry{{key: fmt.Sprint(i), value: []byte("x")}}), false)
	}
	if n := len(r.Faults()); n != maxFaults {
		t.Errorf("%d faults are remembered, want %d", n, maxFaults)
	}
}
