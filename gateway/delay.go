package gateway

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

// delays bounds how many requests of one loop wait at once: a throttle must
// not turn a fast loop into a pile of open connections.
type delays struct {
	limit   int
	mu      sync.Mutex
	waiting map[string]int
}

func (d *delays) enter(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[string]int{}
	}
	if d.waiting[key] >= d.limit {
		return false
	}
	d.waiting[key]++
	return true
}

func (d *delays) leave(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[key]--; d.waiting[key] == 0 {
		delete(d.waiting, key)
	}
}

// delay makes a throttled request wait. It returns false if the request is not
// to be forwarded: the client left, or too many wait already.
func (g *Gateway) delay(w http.ResponseWriter, x *exchange) bool {
	f := strongest(x.decision)
	if f.GetAction() != checkpb.Action_ACTION_THROTTLE {
		f = nil
	}
	rule, ruled := x.enforced(false)
	ruled = ruled && rule.verdict.GetAction() == checkpb.Action_ACTION_THROTTLE
	if f == nil && !ruled {
		return true
	}
	wait, key := time.Duration(f.GetDelayMs())*time.Millisecond, f.GetPolicy()+"\x00"+string(f.GetFingerprint())
	if ruled {
		wait = max(wait, time.Duration(rule.verdict.GetDelayMs())*time.Millisecond)
	}
	if f == nil {
		key = rule.wire.GetPolicy() + "\x00" + string(rule.wire.GetKey())
	}
	if !g.delays.enter(key) {
		defer g.giveBack(x)
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "reject").Inc()
		if f == nil {
			g.refuseLimit(w, x, rule, nil)
			return false
		}
		f.Action = checkpb.Action_ACTION_REJECT
		g.refuseLoop(w, x, f)
		return false
	}
	defer g.delays.leave(key)
	g.metrics.delayed.Inc()
	defer g.metrics.delayed.Dec()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "abandoned").Inc()
		x.status = statusClientLeft
		w.WriteHeader(statusClientLeft)
		g.uncount(x)
		g.giveBack(x)
		return false
	}
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

// loopRefusal describes a finding to the client.
func loopRefusal(f *checkpb.Finding, caller string) provider.Refusal {
	message := loopMessage(f, caller)
	return provider.Refusal{
		Status: http.StatusTooManyRequests, Code: codeLoop, Message: message,
		Detail: &provider.Detail{
			Error: codeLoop, Message: message, Detector: f.GetDetector(), Policy: f.GetPolicy(),
			Fingerprint: fingerprintText(f), HitCount: f.GetHitCount(), WindowSeconds: f.GetWindowSeconds(),
			CooldownSeconds: f.GetCooldownSeconds(), LoopID: f.GetLoopId(),
		},
	}
}
