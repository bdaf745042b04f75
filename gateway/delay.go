package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/wait"
)

// delay makes a throttled request wait. It returns false if the request is not
// to be forwarded: the client left, or too many wait already.
func (g *Gateway) delay(w http.ResponseWriter, x *exchange) bool {
	err := g.waiting.Wait(x.r.Context(), x.out.Wait.Key, x.out.Wait.For)
	switch {
	case err == nil:
		return true
	case errors.Is(err, wait.ErrCrowded):
		x.out = x.out.Crowded()
		g.stop(w, x)
	default:
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "abandoned").Inc()
		x.account.Status = respond.StatusClientLeft
		w.WriteHeader(x.account.Status)
		x.account.Uncount()
		x.account.GiveBack()
	}
	return false
}

// spellLog logs the first of many like events, and again once they have been
// away for a while.
type spellLog struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// spell is how long an event must not have happened to be news again.
const spell = time.Minute

func (l *spellLog) note(log *slog.Logger, now time.Time, why string) {
	l.mu.Lock()
	last, seen := l.last[why]
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	l.last[why] = now
	l.mu.Unlock()
	if !seen || now.Sub(last) > spell {
		log.Warn("requests are not checked; the failure mode decides", "reason", why)
	}
}
