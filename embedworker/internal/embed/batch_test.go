package embed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// gate is a runner that holds every run until it is let go.
type gate struct {
	mu   sync.Mutex
	runs [][][]int32
	go1  chan struct{}
	err  error
}

func (g *gate) run(rows [][]int32) ([][]float32, error) {
	<-g.go1
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs = append(g.runs, rows)
	out := make([][]float32, len(rows))
	for i, r := range rows {
		out[i] = []float32{float32(r[0])}
	}
	return out, g.err
}

func limits() Limits {
	l := DefaultLimits()
	l.Batch, l.Queue = 4, 6
	return l
}

func rowOf(id int32, length int) []int32 { return slices.Repeat([]int32{id}, length) }

func TestRowsThatWaitShareARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{go1: make(chan struct{})}
		reported := make(chan int, 3)
		b := newBatcher(g, limits(), func(texts int) { reported <- texts })
		ask := func(id int32, length int) {
			v, err := b.vectors(t.Context(), [][]int32{rowOf(id, length)})
			if err != nil || v[0][0] != float32(id) {
				t.Errorf("row %d: got %v, %v", id, v, err)
			}
		}
		go ask(1, 10)
		synctest.Wait() // the first row runs alone
		for id, length := range map[int32]int{2: 10, 3: 12, 4: 100, 5: 16} {
			go ask(id, length)
		}
		synctest.Wait()
		close(g.go1)
		synctest.Wait()
		b.close()
		var sizes []int
		for _, run := range g.runs {
			sizes = append(sizes, len(run))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{1, 1, 3}) {
			t.Errorf("runs of %v rows, want one alone, one long, three short", sizes)
		}
		if texts := <-reported + <-reported + <-reported; texts != 5 {
			t.Errorf("the runs are reported with %d texts, want 5", texts)
		}
	})
}

func TestLongRowsDoNotPileUpInOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{go1: make(chan struct{})}
		close(g.go1)
		b := newBatcher(g, limits(), nil)
		rows := [][]int32{rowOf(1, 256), rowOf(2, 256), rowOf(3, 256), rowOf(4, 256)}
		if _, err := b.vectors(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		b.close()
		if len(g.runs) != 2 {
			t.Errorf("4 rows of 256 tokens took %d runs, want 2", len(g.runs))
		}
	})
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{go1: make(chan struct{})}
		b := newBatcher(g, limits(), nil)
		var wait sync.WaitGroup
		for range 1 + limits().Queue {
			wait.Go(func() {
				if _, err := b.vectors(t.Context(), [][]int32{rowOf(7, 8)}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if _, err := b.vectors(t.Context(), [][]int32{rowOf(7, 8)}); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		close(g.go1)
		wait.Wait()
		b.close()
		if _, err := b.vectors(t.Context(), [][]int32{rowOf(7, 8)}); !errors.Is(err, ErrClosed) {
			t.Errorf("after closing: got %v, want ErrClosed", err)
		}
	})
}

func TestCallersThatLeftAreNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{go1: make(chan struct{})}
		b := newBatcher(g, limits(), nil)
		go func() { _, _ = b.vectors(t.Context(), [][]int32{rowOf(1, 8)}) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := b.vectors(ctx, [][]int32{rowOf(2, 8)})
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
		close(g.go1)
		b.close()
		if len(g.runs) != 1 {
			t.Errorf("%d runs, want the first caller's alone", len(g.runs))
		}
	})
}

func TestAFailedRunFailsItsRows(t *testing.T) {
	t.Parallel()
	g := &gate{go1: make(chan struct{}), err: ErrInference}
	close(g.go1)
	b := newBatcher(g, limits(), nil)
	defer b.close()
	if _, err := b.vectors(t.Context(), [][]int32{rowOf(1, 8), rowOf(2, 8)}); !errors.Is(err, ErrInference) {
		t.Errorf("got %v, want ErrInference", err)
	}
}
