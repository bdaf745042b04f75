package intake

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/share/fair"
)

// trickle is a connection on which a part of a body comes each second, until its read
// deadline or the end.
type trickle struct {
	http.ResponseWriter
	part     int
	cut, end chan struct{}
}

func (c *trickle) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && !at.After(time.Now()) {
		close(c.cut)
	}
	return nil
}

func (c *trickle) Read(p []byte) (int, error) {
	select {
	case <-c.cut:
		return 0, os.ErrDeadlineExceeded
	case <-c.end:
		return 0, io.ErrUnexpectedEOF
	case <-time.After(time.Second):
		return min(len(p), c.part), nil
	}
}

// Many callers send large bodies slowly. As soon as others need their memory, they are cut
// off; bodies that come at a fair pace are not, nor is anybody while there is memory.
func TestSlowBodiesMakeRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewBodies(8<<20, prometheus.NewRegistry())
		type result struct {
			caller fair.Caller
			err    error
		}
		end, ended := make(chan struct{}), make(chan result, 20)
		send := func(caller fair.Caller, part int) {
			c := &trickle{httptest.NewRecorder(), part, make(chan struct{}), end}
			r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(c))
			r.ContentLength = 1 << 20
			u := all.Watch(c, r, caller)
			_, err := Read(r, 8<<20)
			u.Free()
			ended <- result{caller, err}
		}
		ask := func() error {
			r := uploadOf(900<<10, true)
			defer all.Watch(httptest.NewRecorder(), r, 0).Free()
			_, err := Read(r, 8<<20)
			return err
		}
		go send(1, 40<<10)
		const slow = 10
		for caller := range fair.Caller(slow) {
			go send(2+caller, 10<<10)
			if caller == 0 {
				<-time.After(10 * time.Second)
				if err := ask(); err != nil || len(ended) > 0 {
					t.Errorf("while there is memory: %v, and %d ended", err, len(ended))
				}
			}
		}
		<-time.After(9 * time.Second)
		if err := ask(); err != nil {
			t.Errorf("a body that needs the memory of slow ones: %v", err)
		}
		cut := 0
		for len(ended) > 0 {
			switch one := <-ended; {
			case one.caller != 1 && errors.Is(one.err, os.ErrDeadlineExceeded):
				cut++
			case !errors.Is(one.err, ErrNoRoom):
				t.Errorf("caller %d: %v", one.caller, one.err)
			}
		}
		if cut == 0 {
			t.Error("nobody was cut off")
		}
		close(end)
		synctest.Wait()
	})
}

// Thousands of requests that wait for memory look for slow clients no more often than one.
func TestSlowBodiesAreLookedForOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewBodies(8<<20, prometheus.NewRegistry())
		all.taken = all.size
		slow := func() *trickle {
			c := &trickle{httptest.NewRecorder(), 1, make(chan struct{}), nil}
			all.coming[&Upload{conn: http.NewResponseController(c)}] = time.Now().Add(-time.Second)
			return c
		}
		isCut := func(c *trickle) bool {
			all.look()
			select {
			case <-c.cut:
				return true
			default:
				return false
			}
		}
		if !isCut(slow()) {
			t.Error("a slow client is not cut off")
		}
		if isCut(slow()) || len(all.coming) != 1 {
			t.Error("the clients are looked at again at once")
		}
		<-time.After(lookEvery)
		if last := slow(); !isCut(last) || len(all.coming) != 0 {
			t.Error("after a second they are not looked at again")
		}
	})
}
