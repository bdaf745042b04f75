package intake

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Over HTTP/2 the end of a body may come long after its last byte. The body is whole once
// all that was announced has come.
func TestABodyIsWholeBeforeItsEndIsSeen(t *testing.T) {
	t.Parallel()
	const size = 1200 << 10
	end := make(chan struct{})
	defer close(end)
	r := httptest.NewRequest(http.MethodPost, "/", slowBody{strings.NewReader(strings.Repeat("x", size)), end})
	r.ContentLength = size
	u := NewBodies(16<<20, prometheus.NewRegistry()).Watch(httptest.NewRecorder(), r, 1)
	defer u.Free()
	b, err := Read(r, 8<<20)
	if err != nil || len(b.Bytes) != size || b.Rest != nil || !u.ended.Load() {
		t.Errorf("%d bytes, ended %t: %v", len(b.Bytes), u.ended.Load(), err)
	}
}

func TestWhatIsMadeOfABodyTakesMemory(t *testing.T) {
	t.Parallel()
	all := NewBodies(1<<20, prometheus.NewRegistry())
	r := uploadOf(100_000, true)
	u := all.Watch(httptest.NewRecorder(), r, 1)
	defer u.Free()
	if _, err := Read(r, 8<<20); err != nil {
		t.Fatal(err)
	}
	holds := func(want float64) {
		t.Helper()
		if held := testutil.ToFloat64(all.held); held != want {
			t.Errorf("%.0f bytes are held, want %.0f", held, want)
		}
	}
	holds(100_000)
	if err := u.Take(100_000); err != nil {
		t.Fatal(err)
	}
	holds(200_000)
	u.Give(100_000)
	holds(100_000)
	if err := u.Try(200_000); err != nil {
		t.Fatal(err)
	}
	other := all.Reserve(t.Context(), 1)
	if err := other.Take(200_000); err != nil {
		t.Fatal(err)
	}
	if err := u.Try(100_000); err == nil {
		t.Error("a caller gets more than its half")
	}
	go other.Free()
	if err := u.Again(); err != nil {
		t.Fatal(err)
	}
	holds(400_000)
	for _, n := range []int{200_000, 100_000} { // the same tries again
		if err := u.Try(n); err != nil {
			t.Errorf("for %d bytes, for which it waited: %v", n, err)
		}
	}
	holds(400_000)
	u.Free()
	holds(0)
}
