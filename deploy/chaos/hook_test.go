package chaos

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/pause"
)

// hook is a webhook that remembers the loops in the messages that it got.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	loops map[string]bool
}

func newHook() *hook {
	h := &hook{loops: map[string]bool{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a part is not an event
		if e, err := event.Parse(body); err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.loops[e.Data.LoopID] = true
		}
	}))
	return h
}

// missing waits until there was a message about each of the loops, and counts those
// without one when the context ends.
func (h *hook) missing(ctx context.Context, loops []string) (n int) {
	for {
		n = 0
		h.mu.Lock()
		for _, id := range loops {
			if !h.loops[id] {
				n++
			}
		}
		h.mu.Unlock()
		if n == 0 || pause.For(ctx, every) != nil {
			return n
		}
	}
}
