package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/respond"
	"github.com/unloop/unloop/gateway/internal/wait"
	"github.com/unloop/unloop/schemas/checkpb"
)

// delay makes a throttled request wait. It returns false if the request is not
// to be forwarded: the client left, or too many wait already.
func (g *Gateway) delay(w http.ResponseWriter, x *exchange) bool {
	found := x.decision.GetFindings()
	f := strongest(x.decision)
	if f.GetAction() != checkpb.Action_ACTION_THROTTLE {
		f = nil
	}
	rule, ruled := x.enforced(false)
	ruled = ruled && rule.verdict.GetAction() == checkpb.Action_ACTION_THROTTLE
	if f == nil && !ruled {
		return true
	}
	delay, key := time.Duration(f.GetDelayMs())*time.Millisecond, f.GetPolicy()+"\x00"+string(f.GetFingerprint())
	if ruled {
		delay = max(delay, time.Duration(rule.verdict.GetDelayMs())*time.Millisecond)
	}
	if f == nil {
		key = rule.wire.GetPolicy() + "\x00" + string(rule.wire.GetKey())
	}
	switch err := g.waiting.Wait(x.r.Context(), key, delay); {
	case err == nil:
		return true
	case !errors.Is(err, wait.ErrCrowded):
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "abandoned").Inc()
		x.status = respond.StatusClientLeft
		w.WriteHeader(x.status)
		g.uncount(x)
	case f == nil:
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "reject").Inc()
		g.refuseLimit(w, x, rule, nil)
	default:
		g.metrics.requests.WithLabelValues(x.Provider.Name(), "reject").Inc()
		rejected := proto.CloneOf(f)
		rejected.Action = checkpb.Action_ACTION_REJECT
		x.decision = proto.CloneOf(x.decision)
		x.decision.Findings[slices.Index(found, f)] = rejected
		g.refuseLoop(w, x, rejected)
	}
	g.giveBack(x)
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
