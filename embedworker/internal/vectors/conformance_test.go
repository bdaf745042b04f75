package vectors_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas/details"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// clock is the stores' time, moved by hand.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(time.Now().UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func TestKVConforms(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Service()
	conformance(t, func(_ *testing.T, c *clock) vectors.Store {
		store := vectors.NewKV(nc, natskit.Layout{}, c.now, nil)
		return store
	})
}

func TestRedisVectorSetsConform(t *testing.T) {
	t.Parallel()
	server := realparts.Redis(t)
	conformance(t, redisStore(server.URL()))
}

func redisStore(url string) func(t *testing.T, c *clock) vectors.Store {
	return func(t *testing.T, c *clock) vectors.Store {
		t.Helper()
		store, err := vectors.NewRedis(url, c.now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		if err := store.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		return store
	}
}

// unit returns a vector whose similarity to the first axis is the given one.
func unit(similarity float64) []float32 {
	cosine := 2*similarity - 1
	v := make([]float32, 8)
	v[0], v[1] = float32(cosine), float32(math.Sqrt(1-cosine*cosine))
	return v
}

var session atomic.Int64

// request returns a text of a session of its own, of similarity 1.
func request() vectors.Request {
	return vectors.Request{
		Scope:   vectors.Scope{Kind: "session", Key: fmt.Sprintf("%d-%d", os.Getpid(), session.Add(1)), Embedder: "test"},
		Subject: compare.Subject{Halves: [][]float32{unit(1)}, Details: 7},
		Keep:    5, TTL: time.Hour,
	}
}

func with(r vectors.Request, similarity float64) vectors.Request {
	r.Subject.Halves = [][]float32{unit(similarity)}
	return r
}

func compareWith(t *testing.T, s vectors.Store, r vectors.Request) []vectors.Found {
	t.Helper()
	h, err := s.Compare(t.Context(), r)
	if err != nil {
		t.Fatalf("compare: %v", err)
	}
	if h.Replaced && r.Replaces == "" {
		t.Error("an entry is replaced that nobody named")
	}
	return h.Past
}

// expect checks similarities, newest first.
func expect(t *testing.T, past []vectors.Found, want ...float64) {
	t.Helper()
	if len(past) != len(want) {
		t.Fatalf("%d entries %v, want %v", len(past), past, want)
	}
	for i, w := range want {
		if math.Abs(past[i].Similarity-w) > 1e-5 {
			t.Errorf("entry %d has similarity %g, want %g", i, past[i].Similarity, w)
		}
	}
}

// conformance is what every store must do.
func conformance(t *testing.T, open func(t *testing.T, c *clock) vectors.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, vectors.Store, *clock){
		"a scope begins empty and remembers, newest first": testOrder,
		"the sixth text makes the first forgotten":         testKeep,
		"each text ages out by itself":                     testTTL,
		"scopes, kinds and embedders do not meet":          testIsolation,
		"an exchange needs both halves":                    testExchange,
		"texts under one id do not meet":                   testSameID,
		"one entry of a named kind is replaced":            testReplaces,
		"a peek remembers nothing":                         testPeek,
		"marks, texts and ages come back":                  testDetails,
		"sentences and digests are compared":               testSentences,
		"of two at once at least one sees the other":       testAtOnce,
		"many at once lose none":                           testManyAtOnce,
		"what cannot be compared is refused":               testInvalid,
		"subjects without vectors are remembered":          testUnembedded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			test(t, open(t, c), c)
		})
	}
}

func testSentences(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	r.Subject.Sentences, r.Subject.Digest = compare.Sentences{5<<8 | 20, 0xffff_ff00 | 9}, 1<<63+1
	compareWith(t, s, r)
	p := compareWith(t, s, r)[0]
	if !p.Identical || !p.Repeats || p.OtherItem || p.Digest != r.Subject.Digest {
		t.Errorf("the same again: %+v", p.Past)
	}
	r.Subject.Sentences, r.Subject.Digest = compare.Sentences{5<<8 | 20, 7<<8 | 9}, 2
	if p := compareWith(t, s, r)[0]; p.Identical || p.Repeats || !p.OtherItem {
		t.Errorf("another item: %+v", p.Past)
	}
	r.Subject.Sentences, r.Subject.Digest = nil, 0
	if p := compareWith(t, s, r)[0]; p.Identical || p.Repeats || p.OtherItem {
		t.Errorf("unknown: %+v", p.Past)
	}
}

func testOrder(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	expect(t, compareWith(t, s, with(r, .5)))
	expect(t, compareWith(t, s, with(r, .97)), unitSimilarity(.97, .5))
	expect(t, compareWith(t, s, with(r, 1)), .97, .5)
	expect(t, compareWith(t, s, with(r, 1)), 1, .97, .5)
	expect(t, compareWith(t, s, with(r, 0)), 0, 0, .03, .5)
}

// unitSimilarity is the similarity of two of unit's vectors.
func unitSimilarity(a, b float64) float64 {
	u, v := unit(a), unit(b)
	return (1 + float64(u[0]*v[0]+u[1]*v[1])) / 2
}

func testKeep(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	for _, similarity := range []float64{.2, .3, .4, .5, .6, .7} {
		compareWith(t, s, with(r, similarity))
	}
	expect(t, compareWith(t, s, with(r, 1)), .7, .6, .5, .4, .3)
}

func testTTL(t *testing.T, s vectors.Store, c *clock) {
	r := request()
	r.TTL = 10 * time.Second
	compareWith(t, s, with(r, .6))
	c.advance(4 * time.Second)
	compareWith(t, s, with(r, .7))
	c.advance(6 * time.Second)
	r.Peek = true
	expect(t, compareWith(t, s, with(r, 1)), .7)
	c.advance(4 * time.Second)
	expect(t, compareWith(t, s, with(r, 1)))
}

func testIsolation(t *testing.T, s vectors.Store, _ *clock) {
	base := request()
	base.Scope.Key += ":a"
	scopes := []vectors.Scope{base.Scope}
	change := func(f func(*vectors.Scope)) {
		scope := base.Scope
		f(&scope)
		scopes = append(scopes, scope)
	}
	change(func(s *vectors.Scope) { s.Kind = "tenant" })
	change(func(s *vectors.Scope) { s.Embedder = "other" })
	for _, odd := range []string{"*", ":", " ", ".", ">", "a b", "a:b", "{x}", "\x00", "\n", strings.Repeat("k", 1024), strings.Repeat("k", 1023) + "j"} {
		change(func(s *vectors.Scope) { s.Key += odd })
	}
	for _, scope := range scopes {
		r := base
		r.Scope = scope
		expect(t, compareWith(t, s, r))
		expect(t, compareWith(t, s, r), 1)
	}
}

func testExchange(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	halves := func(said, answered []float32) vectors.Request {
		r.Subject.Halves = [][]float32{said, answered}
		return r
	}
	one, two := unit(1), unit(.5)
	compareWith(t, s, halves(one, two))
	expect(t, compareWith(t, s, halves(one, two)), 1)
	expect(t, compareWith(t, s, halves(one, one)), .5, .5)
	expect(t, compareWith(t, s, halves(one, unit(.9))), .9, unitSimilarity(.9, .5), unitSimilarity(.9, .5))
	expect(t, compareWith(t, s, halves(one, nil)), 0, 0, 0, 0)
	expect(t, compareWith(t, s, halves(one, nil)), 1, 0, 0, 0, 0)
	expect(t, compareWith(t, s, with(r, 1))) // a text alone is not an exchange
}

func testSameID(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	r.ID = "request:1"
	compareWith(t, s, with(r, .6))
	expect(t, compareWith(t, s, with(r, .7)))
	r.ID = "request:2"
	expect(t, compareWith(t, s, with(r, 1)), .7)
	r.ID = ""
	compareWith(t, s, with(r, 1))
	expect(t, compareWith(t, s, with(r, 1)), 1, 1, .7)
}

func testReplaces(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	named := func(id, replaces string, similarity float64, peek bool) vectors.Request {
		one := with(r, similarity)
		one.ID, one.Replaces, one.Peek = id, replaces, peek
		return one
	}
	replaced := func(r vectors.Request, want bool, similarities ...float64) {
		t.Helper()
		h, err := s.Compare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Replaced != want {
			t.Errorf("%s: replaced %v, want %v", r.ID, h.Replaced, want)
		}
		expect(t, h.Past, similarities...)
	}
	compareWith(t, s, named("asked.1.x", "", .6, false))
	compareWith(t, s, named("asked.12", "", .7, false))
	compareWith(t, s, named("asked.1.y", "", .8, false))
	replaced(named("peek", "asked.1.", 1, true), true, .7, .6)
	replaced(named("own1", "asked.1.", 1, false), true, .7, .6)
	replaced(named("own2", "asked.1.", 1, false), true, 1, .7)
	replaced(named("own3", "asked.1.", 1, false), false, 1, 1, .7)
	replaced(named("own4", "*", 1, false), false, 1, 1, 1, .7)
}

func testPeek(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	r.Peek = true
	expect(t, compareWith(t, s, r))
	expect(t, compareWith(t, s, r))
	r.Peek = false
	compareWith(t, s, r)
	r.Peek = true
	expect(t, compareWith(t, s, r), 1)
	expect(t, compareWith(t, s, r), 1)
}

func testDetails(t *testing.T, s vectors.Store, c *clock) {
	r := request()
	r.ID, r.Text, r.Subject.Details = "first", "Ein Text: 'so' \"und\" so\n", details.Sum(math.MaxUint64)
	compareWith(t, s, r)
	c.advance(1500 * time.Millisecond)
	r.ID, r.Text = "second", ""
	past := compareWith(t, s, r)
	if len(past) != 1 || past[0].ID != "first" || past[0].Text != "Ein Text: 'so' \"und\" so\n" ||
		!past[0].SameDetails || past[0].Age != 1500*time.Millisecond {
		t.Errorf("got %+v", past)
	}
	r.ID, r.Subject.Details = "third", 7
	if past = compareWith(t, s, r); len(past) != 2 || past[0].SameDetails || past[0].Text != "" {
		t.Errorf("got %+v", past)
	}
}

func testAtOnce(t *testing.T, s vectors.Store, _ *clock) {
	for range 10 {
		r := request()
		var seen atomic.Int64
		together(2, func() {
			h, err := s.Compare(context.Background(), r)
			if err != nil {
				t.Error(err)
			}
			seen.Add(int64(len(h.Past)))
		})
		if seen.Load() < 1 {
			t.Error("two at once missed each other")
		}
	}
}

func together(n int, f func()) {
	var wait sync.WaitGroup
	for range n {
		wait.Go(f)
	}
	wait.Wait()
}

func testManyAtOnce(t *testing.T, s vectors.Store, _ *clock) {
	r := request()
	r.Keep = 50
	together(20, func() {
		if _, err := s.Compare(context.Background(), with(r, rand.Float64())); err != nil {
			t.Error(err)
		}
	})
	if past := compareWith(t, s, r); len(past) != 20 {
		t.Errorf("%d of 20 are remembered", len(past))
	}
}

func testInvalid(t *testing.T, s vectors.Store, _ *clock) {
	for name, spoil := range map[string]func(*vectors.Request){
		"no scope":           func(r *vectors.Request) { r.Scope.Key = "" },
		"no vector":          func(r *vectors.Request) { r.Subject.Halves = nil },
		"empty vectors":      func(r *vectors.Request) { r.Subject.Halves = [][]float32{nil, nil} },
		"two dimensions":     func(r *vectors.Request) { r.Subject.Halves = [][]float32{unit(1), unit(1)[:4]} },
		"no history":         func(r *vectors.Request) { r.Keep = 0 },
		"too much history":   func(r *vectors.Request) { r.Keep = vectors.MaxKeep + 1 },
		"no time to be kept": func(r *vectors.Request) { r.TTL = 0 },
	} {
		r := request()
		spoil(&r)
		if _, err := s.Compare(t.Context(), r); !errors.Is(err, vectors.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func testUnembedded(t *testing.T, s vectors.Store, _ *clock) {
	pair := func(digest uint64, similarity float64) vectors.Request {
		r := request()
		r.Subject = compare.Subject{Halves: [][]float32{unit(similarity), unit(1)}, Details: 7, Digest: digest}
		return r
	}
	r := pair(1, 1)
	bare := r
	bare.Subject.Halves, bare.Dim = make([][]float32, 2), 8
	if s.NeedsVectors() {
		if _, err := s.Compare(t.Context(), bare); !errors.Is(err, vectors.ErrInvalid) {
			t.Errorf("no vector: %v, want ErrInvalid", err)
		}
		return
	}
	bare.Suffices = func(past []vectors.Found) bool { return len(past) == 0 }
	if past := compareWith(t, s, bare); len(past) != 0 {
		t.Errorf("the first: %+v", past)
	}
	bare.ID, bare.Subject.Digest = "refused", 2
	for range 2 { // it does not suffice, and is not remembered
		if past := compareWith(t, s, bare); len(past) != 1 || !past[0].Unembedded || !past[0].SameDetails || past[0].Digest != 1 {
			t.Errorf("beside one without vectors: %+v", past)
		}
	}
	r.Subject.Digest = 2
	r.Peek = true
	expect(t, compareWith(t, s, r), 0)
	r.Earlier = map[uint64][][]float32{1: pair(1, .7).Subject.Halves, 2: pair(2, .2).Subject.Halves}
	r.Peek = false
	expect(t, compareWith(t, s, r), .7)
	r.Earlier = map[uint64][][]float32{2: pair(2, .2).Subject.Halves} // it has vectors of its own
	if past := compareWith(t, s, r); len(past) != 2 || past[0].Unembedded || math.Abs(past[0].Similarity-1) > .01 || past[1].Similarity != 0 {
		t.Errorf("behind one with vectors: %+v", past)
	}
}
