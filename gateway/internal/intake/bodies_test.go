package intake

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// uploadOf is a request with a body of so many bytes, of announced length or not.
func uploadOf(n int, announced bool) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, n)))
	if !announced {
		r.ContentLength = -1
	}
	return r
}

// 64 clients with 1 MiB each are held to the bound: those over it wait, and are
// refused when nothing gets free; what gets free is used.
func TestBodiesOfAllRequestsAreBounded(t *testing.T) {
	t.Parallel()
	for name, announced := range map[string]bool{"announced": true, "chunked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				all := NewBodies(8<<20, prometheus.NewRegistry())
				results := make(chan error, 64)
				release := make(chan struct{})
				for range 64 {
					go func() {
						r := uploadOf(1<<20, announced)
						defer all.Watch(httptest.NewRecorder(), r).Free()
						b, err := Read(r, 8<<20)
						results <- err
						if err == nil && len(b.Bytes) != 1<<20 {
							t.Errorf("%d bytes were read", len(b.Bytes))
						}
						<-release
					}()
				}
				synctest.Wait()
				if held := testutil.ToFloat64(all.held); held > 8<<20 {
					t.Errorf("%.0f bytes are held, more than the bound", held)
				}
				<-time.After(2 * memoryWait)
				passed := 0
				for range 64 {
					if err := <-results; err == nil {
						passed++
					} else if !errors.Is(err, ErrNoRoom) {
						t.Error(err)
					}
				}
				if passed < 4 || passed > 8 || announced && passed != 8 {
					t.Errorf("%d bodies of 1 MiB passed a bound of 8", passed)
				}
				close(release)
				synctest.Wait()
				if held := testutil.ToFloat64(all.held); held != 0 {
					t.Errorf("%.0f bytes stay held", held)
				}
				r := uploadOf(100<<20, announced) // larger than all: it takes all
				m := all.Watch(httptest.NewRecorder(), r)
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Errorf("a body larger than the bound: %v", err)
				}
				m.Free()
			})
		})
	}
}

func TestABodyThatPassesThroughTakesNoMemory(t *testing.T) {
	t.Parallel()
	all := NewBodies(1<<20, prometheus.NewRegistry())
	r := uploadOf(64<<20, true)
	defer all.Watch(httptest.NewRecorder(), r).Free()
	b, err := Read(r, 8<<20)
	if err != nil || b.Rest == nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, b.Reader()); err != nil {
		t.Fatal(err)
	}
	if held := testutil.ToFloat64(all.held); held > step {
		t.Errorf("%.0f bytes are held for a body that passes through", held)
	}
}
