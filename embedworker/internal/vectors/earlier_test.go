package vectors

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// earlierStored is when the entries of testdata/earlier.binpb were stored.
var earlierStored = time.UnixMilli(1_795_228_752_850)

// testdata/earlier.binpb is a record as version 1 wrote it: two exchanges with vectors of
// float32, under one key for the whole scope. It stays as it is.
func TestHistoriesOfEarlierVersionsAreContinued(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	now := func() time.Time { return earlierStored.Add(time.Minute) }
	store := NewKV(s.Service(), natskit.Layout{}, now, nil)
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := Request{
		Scope: Scope{Kind: "session", Key: "s", Embedder: "test"}, Keep: 3, TTL: time.Hour, ID: "new",
		Subject: compare.Subject{Halves: [][]float32{{0.6, 0.8}, nil}, Details: 7, Digest: 3},
	}
	stored, err := os.ReadFile("testdata/earlier.binpb")
	if err != nil {
		t.Fatal(err)
	}
	kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketVectors)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "session.87b828b1677be74a0ca7a2040d5163cf", stored); err != nil {
		t.Fatal(err)
	}
	for n, want := range [][]string{{"second", "first"}, {"second", "first"}, {"new", "second"}} {
		r.Peek = n == 0
		h, err := store.Compare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		expectEarlier(t, h.Past, want)
		if n == 1 {
			r.ID, r.Keep = "newer", 2
		}
	}
	if n := keys(t, kv); n != 3 {
		t.Errorf("%d keys are stored, want the earlier one and those of two writes", n)
	}
}

func keys(t *testing.T, kv jetstream.KeyValue) int {
	t.Helper()
	all, err := kv.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// expectEarlier checks which entries came back, newest first, and that those of the
// earlier version are compared as ever.
func expectEarlier(t *testing.T, past []Found, ids []string) {
	t.Helper()
	if len(past) != len(ids) {
		t.Fatalf("%d entries came back, want %v", len(past), ids)
	}
	for i, f := range past {
		want := map[string]float64{"first": 0.98, "second": 0.5, "new": 1}[ids[i]]
		if f.ID != ids[i] || math.Abs(f.Similarity-want) > 1e-4 {
			t.Errorf("entry %d is %q with similarity %g, want %q with %g", i, f.ID, f.Similarity, ids[i], want)
		}
		if f.ID == "first" && (!f.SameDetails || f.Text != "a text" || f.Digest != 1<<63 || f.Age != time.Minute+time.Second) {
			t.Errorf("entry %d came back as %+v", i, f)
		}
	}
}

// What is remembered of a scope is read again from its parts.
func TestAnEntryIsStoredOnce(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_700_000_000_000)
	r := Request{Scope: Scope{Kind: "session", Key: "s"}, Subject: compare.Subject{Halves: [][]float32{{1, 0}}}, Keep: 3, TTL: time.Hour}
	var h history
	written := map[uint64][]byte{}
	for seq := uint64(1); seq <= 5; seq++ {
		h = h.appended(r, now.Add(time.Duration(seq)*time.Second), usualRoom())
		written[seq] = h.Append(nil)
		h.Stored(seq)
	}
	if len(written[5]) > len(written[1])+16 || h.Slot() == "0" {
		t.Errorf("the fifth write has %d bytes, the first %d; slot %s", len(written[5]), len(written[1]), h.Slot())
	}
	var read history
	if err := read.Parse(written[5]); err != nil {
		t.Fatal(err)
	}
	read.Stored(5)
	for _, seq := range read.Missing(history{}) {
		read.Add(seq, written[seq])
	}
	if len(read.entries) != 3 || read.in[0].seq != 5 || read.in[2].seq != 3 || read.Size() != h.Size() {
		t.Errorf("%d entries of parts %v are read", len(read.entries), read.in)
	}
	if again := h; len(again.stored()) != 3 {
		t.Errorf("parts %v", again.in)
	}
}
