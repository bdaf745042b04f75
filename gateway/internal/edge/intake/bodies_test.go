package intake

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/gateway/internal/wire/request"
)

// uploadOf is a request with a body of so many bytes, of announced length or not.
func uploadOf(n int, announced bool) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, n)))
	if !announced {
		r.ContentLength = -1
	}
	return r
}

// Clients with 1 MB each are held to the bound: those over it wait, and are refused when
// nothing gets free; what gets free is used.
func TestBodiesOfAllRequestsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		announced bool
		callers   int
		least     int // of 64 bodies pass
	}{
		"announced": {true, 64, 4}, "chunked": {false, 64, 1}, "of one caller": {true, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := NewBodies(8<<20, prometheus.NewRegistry())
				results := make(chan error, 64)
				release := make(chan struct{})
				for i := range 64 {
					go func() {
						r := uploadOf(1_000_000, c.announced)
						defer all.Watch(httptest.NewRecorder(), r, fair.Caller(i%c.callers)).Free()
						b, err := Read(r, 8<<20)
						results <- err
						if err == nil && len(b.Bytes) != 1_000_000 {
							t.Errorf("%d bytes were read", len(b.Bytes))
						}
						<-release
					}()
				}
				synctest.Wait()
				if held := testutil.ToFloat64(all.held); held > 8<<20 || c.callers == 1 && held > 4<<20 {
					t.Errorf("%.0f bytes are held, more than the bound", held)
				}
				passed := 0
				for range 64 {
					if err := <-results; err == nil {
						passed++
					} else if !errors.Is(err, ErrNoRoom) {
						t.Error(err)
					}
				}
				if passed < c.least || passed > 8 {
					t.Errorf("%d bodies of 1 MB passed a bound of 8 MiB", passed)
				}
				close(release)
				synctest.Wait()
				if held := testutil.ToFloat64(all.held); held != 0 || len(all.by) != 0 || all.waiting.Len() != 0 {
					t.Errorf("%.0f bytes of %d callers stay held, and %d wait", held, len(all.by), all.waiting.Len())
				}
				r := uploadOf(100<<20, c.announced) // larger than all
				m := all.Watch(httptest.NewRecorder(), r, 1)
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Errorf("a body larger than the bound: %v", err)
				}
				m.Free()
			})
		})
	}
}

// slowBody sends its beginning, and nothing more until it is closed.
type slowBody struct {
	begin *strings.Reader
	end   chan struct{}
}

func (b slowBody) Read(p []byte) (int, error) {
	if n, err := b.begin.Read(p); err == nil {
		return n, nil
	}
	<-b.end
	return 0, io.ErrUnexpectedEOF
}

func (slowBody) Close() error { return nil }

// One caller announces much on many connections and stalls, at a byte or in the middle of
// large bodies. The bodies of others are read at once.
func TestACallerThatStallsHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		connections, sent int
		length            int64
	}{
		"a byte of 1 MiB":              {520, 1, 1 << 20},
		"a byte of unknown length":     {1000, 1, -1},
		"half of one large body":       {1, 600 << 10, 1500 << 10},
		"half of many large bodies":    {100, 600 << 10, 1500 << 10},
		"half of many without lengths": {100, 600 << 10, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := NewBodies(64<<20, prometheus.NewRegistry())
				end := make(chan struct{})
				text := strings.Repeat("x", c.sent)
				var stalled sync.WaitGroup
				for range c.connections {
					stalled.Go(func() {
						r := httptest.NewRequest(http.MethodPost, "/", slowBody{strings.NewReader(text), end})
						r.ContentLength = c.length
						defer all.Watch(httptest.NewRecorder(), r, 1).Free()
						_, _ = Read(r, 8<<20)
					})
				}
				synctest.Wait()
				began := time.Now()
				for i, size := range []int{20, 2000, 100_000, 1200 << 10, 8 << 20} {
					for _, announced := range []bool{true, false} {
						r := uploadOf(size, announced)
						u := all.Watch(httptest.NewRecorder(), r, fair.Caller(i+2))
						if b, err := Read(r, 8<<20); err != nil || len(b.Bytes) != size {
							t.Errorf("a body of %d bytes, announced %t: %v", size, announced, err)
						}
						u.Free()
					}
				}
				if waited := time.Since(began); waited != 0 {
					t.Errorf("they waited %s", waited)
				}
				close(end)
				stalled.Wait()
			})
		})
	}
}

func TestMemoryThatGetsFreeGoesToCallersInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewBodies(4_000, prometheus.NewRegistry())
		if !all.try(1, 2000) || !all.try(2, 1000) {
			t.Fatal("there is too little to begin with")
		}
		given := make(chan fair.Caller, 4)
		for _, caller := range []fair.Caller{1, 1, 1, 2} {
			go func() {
				if all.await(t.Context(), caller, 300) {
					given <- caller
				}
			}()
			synctest.Wait()
		}
		all.release(1, 1000)
		synctest.Wait()
		got := map[fair.Caller]int{}
		for len(given) > 0 {
			got[<-given]++
		}
		if got[1] != 1 || got[2] != 1 {
			t.Errorf("free memory went to %v", got)
		}
		<-time.After(memoryWait)
		if n := testutil.ToFloat64(all.refused); n != 2 || all.waiting.Len() != 0 {
			t.Errorf("%v were refused, and %d wait", n, all.waiting.Len())
		}
	})
}

func TestABodyThatPassesThroughTakesNoMemory(t *testing.T) {
	t.Parallel()
	all := NewBodies(1<<20, prometheus.NewRegistry())
	r := uploadOf(64<<20, true)
	defer all.Watch(httptest.NewRecorder(), r, 1).Free()
	b, err := Read(r, 8<<20)
	if err != nil || b.Rest == nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, b.Reader()); err != nil {
		t.Fatal(err)
	}
	if held := testutil.ToFloat64(all.held); held > 2*request.Sample {
		t.Errorf("%.0f bytes are held for a body that passes through", held)
	}
}
