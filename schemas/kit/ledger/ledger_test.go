package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// tally is a record that only counts.
type tally struct {
	N int `json:"n"`
}

func (c *tally) Parse(stored []byte) error { return json.Unmarshal(stored, c) }

func (c *tally) Append(b []byte) []byte { return fmt.Appendf(b, `{"n":%d}`, c.N) }

// open returns a ledger as one process would have it.
func open(t testing.TB, s *natstest.Server) *Ledger[tally, *tally] {
	t.Helper()
	return New[tally](s.Service(), schemas.BucketCounters, nil)
}

func add(c tally) (tally, time.Duration) { return tally{c.N + 1}, time.Minute }

// No update is lost and none is applied twice, however many processes and
// goroutines write however many keys.
func TestEveryUpdateIsAppliedOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	packed := New[tally](s.Service(), schemas.BucketCounters, nil, WithPacked())
	ledgers := []*Ledger[tally, *tally]{open(t, s), open(t, s), packed}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		keys := rapid.IntRange(1, 4).Draw(rt, "keys")
		updates := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 60).Draw(rt, "updates")
		want := map[string]int{}
		var wg sync.WaitGroup
		for _, u := range updates {
			key := fmt.Sprintf("run.%d.%d", run, u%keys)
			want[key]++
			wg.Go(func() {
				if err := ledgers[u%len(ledgers)].Apply(t.Context(), key, add); err != nil {
					t.Errorf("apply: %v", err)
				}
			})
		}
		wg.Wait()
		for key, n := range want {
			got, err := ledgers[0].Read(t.Context(), key)
			if err != nil || got.N != n {
				rt.Fatalf("%s holds %d after %d updates, %v", key, got.N, n, err)
			}
		}
	})
}

func TestPackedRecordsAreRememberedAsTheyAreStored(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	l := New[tally](s.Service(), schemas.BucketCounters, nil, WithPacked())
	for n := range 3 {
		if err := l.Apply(t.Context(), "k", add); err != nil {
			t.Fatal(err)
		}
		m, _ := l.cache.get("k")
		if want := fmt.Sprintf(`{"n":%d}`, n+1); string(m.stored) != want || m.record != nil {
			t.Errorf("%q is remembered, want %q; a record: %v", m.stored, want, m.record)
		}
	}
	if reads := testutil.ToFloat64(l.metrics.reads); reads != 0 {
		t.Errorf("%v reads of what is remembered", reads)
	}
}

func TestUpdatesOfOneKeyShareWrites(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	l := open(t, s)
	first, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = l.Apply(t.Context(), "k", func(c tally) (tally, time.Duration) {
			close(first)
			<-release // meanwhile the others line up behind this write
			return add(c)
		})
	})
	<-first
	for range 50 {
		wg.Add(1)
		l.Start(t.Context(), "k", add, func(err error) {
			if err != nil {
				t.Errorf("start: %v", err)
			}
			wg.Done()
		})
	}
	close(release)
	wg.Wait()
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	if last := stream.CachedInfo().State.LastSeq; last != 2 {
		t.Errorf("51 updates took %d writes, want 2", last)
	}
}

func TestStepThatChangesNothingReadsBeforeItBelievesThat(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if err := open(t, s).Apply(t.Context(), "k", add); err != nil {
		t.Fatal(err)
	}
	seen := -1
	err := open(t, s).Apply(t.Context(), "k", func(c tally) (tally, time.Duration) {
		seen = c.N
		return c, 0
	})
	if err != nil || seen != 1 {
		t.Errorf("another process saw %d, %v; want the stored 1", seen, err)
	}
}

func TestConfirmedStepThatChangesNothingSeesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	look := func(l *Ledger[tally, *tally]) (seen int) {
		err := l.Apply(t.Context(), "k", func(c tally) (tally, time.Duration) {
			seen = c.N
			return c, 0
		})
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	cached, confirmed := open(t, s), New[tally](s.Service(), schemas.BucketCounters, nil, WithConfirm())
	for _, l := range []*Ledger[tally, *tally]{cached, confirmed, open(t, s)} {
		if err := l.Apply(t.Context(), "k", add); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := look(cached), look(confirmed); a != 1 || b != 3 {
		t.Errorf("saw %d and %d; want what was cached, 1, and what is stored, 3", a, b)
	}
}

func TestRecordsThatAreNoneStartAnew(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	for key, spoil := range map[string]func() error{
		"junk":    func() error { _, err := kv.PutString(t.Context(), "junk", "\x00 no record"); return err },
		"list":    func() error { _, err := kv.PutString(t.Context(), "list", "[1,2]"); return err },
		"deleted": func() error { return kv.Delete(t.Context(), "deleted") },
		"purged":  func() error { return kv.Purge(t.Context(), "purged") },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		l := open(t, s)
		if err := l.Apply(t.Context(), key, add); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if got, err := l.Read(t.Context(), key); err != nil || got.N != 1 {
			t.Errorf("%s: holds %d, %v; want 1", key, got.N, err)
		}
	}
}

func TestRecordThatVanishedIsCreatedAgain(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	l := open(t, s)
	for range 3 {
		if err := l.Apply(t.Context(), "k", add); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil { // as an expiry would
		t.Fatal(err)
	}
	if err := l.Apply(t.Context(), "k", add); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Read(t.Context(), "k"); err != nil || got.N != 1 {
		t.Errorf("holds %d, %v; want a record that starts at 1", got.N, err)
	}
	if lost := testutil.ToFloat64(l.metrics.lost); lost != 1 {
		t.Errorf("%v lost records, want one", lost)
	}
	var timed dto.Metric
	if err := l.metrics.seconds.Write(&timed); err != nil || timed.GetHistogram().GetSampleCount() < 2 {
		t.Errorf("%d timed writes, %v; want each", timed.GetHistogram().GetSampleCount(), err)
	}
}

func TestStepOfARequestThatGaveUpIsDropped(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	l := open(t, s)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Apply(gone, "k", add); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if got, err := l.Read(t.Context(), "k"); err != nil || got.N != 0 {
		t.Errorf("holds %d, %v; want no record", got.N, err)
	}
}

func TestWithoutAStoreApplyFailsAtOnce(t *testing.T) {
	t.Parallel()
	for name, conn := range map[string]func(*natstest.Server) *natskit.Conn{
		"no bucket":     func(s *natstest.Server) *natskit.Conn { return s.Service() },
		"no connection": func(s *natstest.Server) *natskit.Conn { nc := s.Service(); nc.Close(); return nc },
	} {
		l := New[tally](conn(natstest.StartBare(t)), schemas.BucketCounters, nil)
		if err := l.Apply(t.Context(), "k", add); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: error %v, want ErrUnavailable", name, err)
		}
		if _, err := l.Read(t.Context(), "k"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: read error %v, want ErrUnavailable", name, err)
		}
	}
}

func TestStoredRecordIsReadableJSON(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if err := open(t, s).Apply(t.Context(), "live.prompt.default.ab", add); err != nil {
		t.Fatal(err)
	}
	kv, err := s.JetStream().KeyValue(t.Context(), schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := kv.Get(t.Context(), "live.prompt.default.ab")
	if err != nil {
		t.Fatal(err)
	}
	var got tally
	if err := json.Unmarshal(entry.Value(), &got); err != nil || got.N != 1 {
		t.Errorf("the bucket holds %s, %v", entry.Value(), err)
	}
}

// Steps that come while others fail must not be tried from within those, ever
// deeper: without a server that would go on as long as requests come.
func TestFailingStepsDoNotNest(t *testing.T) {
	t.Parallel()
	const steps = 1000
	nc := natstest.StartBare(t).Service()
	nc.Close()
	l := New[tally](nc, schemas.BucketIncidents, nil)
	deepest := 0
	failed := make(chan error, steps)
	var next func(n int)
	next = func(n int) {
		l.Start(t.Context(), "k", func(c tally) (tally, time.Duration) {
			deepest = max(deepest, runtime.Callers(0, make([]uintptr, 4096)))
			if n < steps {
				next(n + 1) // waits for this one, as another request's would
			}
			return add(c)
		}, func(err error) { failed <- err })
	}
	next(1)
	for range steps {
		if err := <-failed; !errors.Is(err, ErrUnavailable) {
			t.Fatalf("error %v, want ErrUnavailable", err)
		}
	}
	if deepest > 60 {
		t.Errorf("%d calls deep", deepest)
	}
}

// The server has dropped the record, and so has every process that wrote it.
func TestWhatIsCachedGoesWithItsTTL(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	l := open(t, s)
	if err := l.Apply(t.Context(), "k", add); err != nil {
		t.Fatal(err)
	}
	l.began = l.began.Add(-time.Hour) // as if an hour had passed
	c := &cell[tally]{key: "k"}
	l.recall(c)
	if c.known || c.seen.seq != 0 {
		t.Errorf("an hour later it is taken for revision %d", c.seen.seq)
	}
}

// another owns all keys from the first conflict on.
type another struct{ contended atomic.Bool }

func (a *another) Contended(string, string) { a.contended.Store(true) }
func (a *another) Owner(string, string) string {
	if a.contended.Load() {
		return "another"
	}
	return ""
}

// From a conflict on, the steps of one process are another's to apply: they fail
// without being applied, unless they must stay.
func TestStepsOnAnotherProcessesKeyAreNotApplied(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	winner, loser := open(t, s), New[tally](s.Service(), schemas.BucketCounters, nil, WithOwners(&another{}))
	for _, l := range []*Ledger[tally, *tally]{loser, winner} {
		if err := l.Apply(t.Context(), "k", add); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		err := loser.Apply(t.Context(), "k", add)
		if elsewhere, ok := errors.AsType[*ElsewhereError](err); !ok || elsewhere.Owner != "another" {
			t.Errorf("a step on a key of another process: %v", err)
		}
	}
	if err := loser.Apply(Stay(t.Context()), "k", add); err != nil {
		t.Error(err)
	}
	if got, err := winner.Read(t.Context(), "k"); err != nil || got.N != 3 {
		t.Errorf("the record holds %d, %v; want 3", got.N, err)
	}
}
