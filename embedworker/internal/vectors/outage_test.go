package vectors_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/vectors"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestTwoWorkersDoNotMissEachOther(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	var workers [2]*vectors.KV
	for i := range workers {
		store := vectors.NewKV(server.Service(), natskit.Layout{}, time.Now, nil)
		workers[i] = store
	}
	for range 20 {
		r := request()
		var turn, seen atomic.Int64
		together(2, func() {
			h, err := workers[turn.Add(1)-1].Compare(context.Background(), r)
			if err != nil {
				t.Error(err)
			}
			seen.Add(int64(len(h.Past)))
		})
		if seen.Load() != 1 {
			t.Errorf("the two saw %d of each other, want 1", seen.Load())
		}
	}
}

func TestALostBucketIsMadeAgain(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	store := vectors.NewKV(server.Service(), natskit.Layout{Memory: true}, time.Now, nil)
	r := request()
	compareWith(t, store, r)
	if err := server.JetStream().DeleteStream(t.Context(), "KV_LOOP_VECTORS"); err != nil {
		t.Fatal(err)
	}
	expect(t, compareWith(t, store, r))
	expect(t, compareWith(t, store, r), 1)
}

func TestWithoutNATSThePingSaysSo(t *testing.T) {
	t.Parallel()
	conn := natstest.StartBare(t).Service()
	store := vectors.NewKV(conn, natskit.Layout{}, time.Now, nil)
	conn.Close()
	if err := store.Ping(t.Context()); !errors.Is(err, natskit.ErrNotConnected) || !errors.Is(err, vectors.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestALostRedisFailsAtOnceAndComesBack(t *testing.T) {
	t.Parallel()
	server := realparts.Redis(t)
	store, err := vectors.NewRedis(server.URL(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := request()
	compareWith(t, store, r)
	server.Stop()
	if _, err := store.Compare(t.Context(), r); !errors.Is(err, vectors.ErrUnavailable) {
		t.Errorf("without a server: got %v, want ErrUnavailable", err)
	}
	if err := store.Ping(t.Context()); !errors.Is(err, vectors.ErrUnavailable) {
		t.Errorf("ping without a server: got %v", err)
	}
	server.Start()
	untilReached(t, store)
	expect(t, compareWith(t, store, r))
	expect(t, compareWith(t, store, r), 1)
}

func TestRedisNeedNotBeUpAtTheStart(t *testing.T) {
	t.Parallel()
	server := realparts.Redis(t)
	server.Stop()
	store, err := vectors.NewRedis(server.URL(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Ping(t.Context()); !errors.Is(err, vectors.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	server.Start()
	untilReached(t, store)
	expect(t, compareWith(t, store, request()))
	if _, err := vectors.NewRedis("http://localhost", time.Now); err == nil {
		t.Error("an http URL was taken for a Redis")
	}
}

// untilReached pings until the store answers again.
func untilReached(t *testing.T, s vectors.Store) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for err := s.Ping(t.Context()); err != nil; err = s.Ping(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("the store did not come back: %v", err)
		}
	}
}

func BenchmarkStores(b *testing.B) {
	nc := natstest.StartBare(b).Service()
	kv := vectors.NewKV(nc, natskit.Layout{}, time.Now, nil)
	redis, err := vectors.NewRedis(realparts.Redis(b).URL(), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = redis.Close() })
	for _, store := range []vectors.Store{kv, redis} {
		for _, peek := range []bool{false, true} {
			name := store.Kind() + "/put and search"
			if peek {
				name = store.Kind() + "/search"
			}
			b.Run(name, func(b *testing.B) {
				r := request()
				v := make([]float32, 384)
				v[3] = 1
				r.Subject.Halves = [][]float32{v, v}
				for range 6 {
					if _, err := store.Compare(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
				r.Peek = peek
				for b.Loop() {
					if _, err := store.Compare(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A history that is larger than a message loses its oldest entries.
func TestLargeHistoriesKeepTheirNewestEntries(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	s := vectors.NewKV(server.Service(), natskit.Layout{}, time.Now, nil)
	half := make([]float32, 1536)
	half[0] = 1
	for n := range vectors.MaxKeep + 5 {
		h, err := s.Compare(t.Context(), vectors.Request{
			Scope: vectors.Scope{Kind: "session", Key: "large", Embedder: "wide"}, ID: strconv.Itoa(n),
			Subject: compare.Subject{Halves: [][]float32{half, half}}, Keep: vectors.MaxKeep, TTL: time.Hour,
		})
		if err != nil {
			t.Fatalf("entry %d: %v", n, err)
		}
		if want := min(n, 80); len(h.Past) < want || n > 0 && h.Past[0].ID != strconv.Itoa(n-1) {
			t.Fatalf("entry %d is compared with %d, want the newest %d at least", n, len(h.Past), want)
		}
	}
}
