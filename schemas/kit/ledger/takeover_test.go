package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// Records in parts are taken over from their former places while partitions grow, and for a day
// after: whoever writes next sees all that was remembered.
func TestRecordsInPartsAreTakenOverWhilePartitionsGrow(t *testing.T) {
	t.Parallel()
	const keys = 20
	s := natstest.StartBare(t)
	growth := natskit.Growth{JS: s.JetStream(), Layout: natskit.Layout{Memory: true, Partitions: 1}.Of([]string{"KV_" + schemas.BucketCounters, natskit.VectorsStream})}
	if _, err := growth.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, second := s.Service(), s.Service()
	lists := []*Ledger[list, *list]{New[list](first, schemas.BucketVectors, nil), New[list](second, schemas.BucketVectors, nil)}
	// write adds a number to each key, and checks what the writer saw.
	write := func(l *Ledger[list, *list], number int, saw ...int) {
		t.Helper()
		for n := range keys {
			var before []int
			err := l.Apply(t.Context(), fmt.Sprint("scope.", n), func(l list) (list, time.Duration) {
				before = l.numbers()
				return l.with(number), time.Minute
			})
			if err != nil || !slices.Equal(before, saw) {
				t.Fatalf("the write of %d to key %d saw %v, %v; want %v", number, n, before, err, saw)
			}
		}
	}
	write(lists[0], 1)
	write(lists[0], 2, 1)
	growth.Layout.Partitions = 4
	if _, err := natskit.Prepare(t.Context(), growth.JS, growth.Layout); err != nil {
		t.Fatal(err)
	}
	scheme, err := growth.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for n := range keys {
		if scheme.Former(schemas.BucketVectors, fmt.Sprint("scope.", n)) != "" {
			moved++
		}
	}
	if moved == 0 || moved == keys {
		t.Fatalf("%d of %d keys have another place", moved, keys)
	}
	learn := func(conn *natskit.Conn) {
		t.Helper()
		if err := conn.AskPartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	learn(second)
	write(lists[1], 3, 1, 2)
	learn(first)
	write(New[list](first, schemas.BucketVectors, nil), 4, 1, 2, 3)
	for _, phase := range []partition.Phase{partition.Moving, partition.Settled} {
		if scheme, err = growth.Proceed(t.Context(), phase); err == nil && phase == partition.Moving {
			_, err = growth.Sweep(t.Context(), scheme)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	learn(second)
	for n := range keys {
		key := fmt.Sprint("scope.", n)
		if got, err := New[list](second, schemas.BucketVectors, nil).Read(t.Context(), key); err != nil || !slices.Equal(got.numbers(), []int{1, 2, 3, 4}) {
			t.Errorf("after the growth, %s has %v, %v", key, got.numbers(), err)
		}
	}
}

// What nobody touched during a growth is taken over after it.
func TestUntouchedRecordsInPartsAreTakenOverAfterAGrowth(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	growth := natskit.Growth{JS: s.JetStream(), Layout: natskit.Layout{Memory: true, Partitions: 1}.Of([]string{"KV_" + schemas.BucketCounters, natskit.VectorsStream})}
	if _, err := growth.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	const keys = 20
	for n := range keys {
		if err := New[list](s.Service(), schemas.BucketVectors, nil).Apply(t.Context(), fmt.Sprint("scope.", n), func(l list) (list, time.Duration) { return l.with(n), time.Minute }); err != nil {
			t.Fatal(err)
		}
	}
	growth.Layout.Partitions, growth.Sealing = 4, time.Nanosecond
	if _, err := growth.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range keys {
		key := fmt.Sprint("scope.", n)
		l := New[list](s.Service(), schemas.BucketVectors, nil)
		if got, err := l.Read(t.Context(), key); err != nil || !slices.Equal(got.numbers(), []int{n}) {
			t.Errorf("%s has %v, %v", key, got.numbers(), err)
		}
		if err := l.Apply(t.Context(), key, func(l list) (list, time.Duration) { return l.with(-1), time.Minute }); err != nil {
			t.Fatal(err)
		}
		if got, err := l.Read(t.Context(), key); err != nil || !slices.Equal(got.numbers(), []int{n, -1}) {
			t.Errorf("after a write %s has %v, %v", key, got.numbers(), err)
		}
	}
}
