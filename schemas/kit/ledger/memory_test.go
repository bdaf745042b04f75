package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestMemoryForgetsARecordWithItsTTL(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := NewMemory[int](func() time.Time { return now })
	add := func(ttl time.Duration) {
		if err := m.Apply(t.Context(), "k", func(n int) (int, time.Duration) { return n + 1, ttl }); err != nil {
			t.Fatal(err)
		}
	}
	add(10 * time.Second)
	now = now.Add(9 * time.Second)
	add(10 * time.Second)
	add(0) // changes nothing
	if n, _ := m.Read(t.Context(), "k"); n != 2 {
		t.Errorf("record %d, want 2", n)
	}
	now = now.Add(10 * time.Second)
	if n, _ := m.Read(t.Context(), "k"); n != 0 {
		t.Errorf("record %d after its TTL, want none", n)
	}
}

func TestMemoryIsBoundedByWhatIsAlive(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := NewMemory[int](func() time.Time { return now })
	for i := range 5 * firstSweep {
		m.Start(t.Context(), fmt.Sprint(i), func(int) (int, time.Duration) { return 1, time.Second }, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		now = now.Add(time.Second)
	}
	if len(m.records) > firstSweep {
		t.Errorf("%d records are kept, one of them alive", len(m.records))
	}
}

func TestMemoryDropsAStepWhoseContextEnded(t *testing.T) {
	t.Parallel()
	m := NewMemory[int](time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := m.Apply(ctx, "k", func(int) (int, time.Duration) { return 1, time.Minute })
	if n, _ := m.Read(t.Context(), "k"); !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("error %v, record %d; want the context's error and no record", err, n)
	}
}
