package forward

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"weak"

	"github.com/unloop/unloop/gateway/internal/wire/request"
)

// sentObserver notes that the body of a request is held no more.
type sentObserver struct {
	observer
	sent chan struct{}
}

func (o *sentObserver) Sent() { close(o.sent) }

// An answer may take minutes: the body of its request is dropped when it begins.
func TestTheBodyIsDroppedWhenTheAnswerBegins(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	target := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush()
		<-end
	})
	p, o := proxy(t), &sentObserver{sent: make(chan struct{})}
	held, done := make(chan weak.Pointer[byte], 1), make(chan struct{})
	go func() {
		defer close(done)
		text := make([]byte, 1<<20)
		held <- weak.Make(&text[0])
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Body, r.ContentLength = io.NopCloser(nil), int64(len(text))
		p.Forward(httptest.NewRecorder(), r, Request{Target: target, Body: &request.Body{Bytes: text, Length: int64(len(text))}, Observer: o})
	}()
	body := <-held
	<-o.sent
	runtime.GC()
	if body.Value() != nil {
		t.Error("the body is held while the answer comes")
	}
	close(end)
	<-done
}
