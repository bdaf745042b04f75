package gateway

import (
	"sync"
	"time"

	"github.com/unloop/unloop/gateway/internal/bundle"
	"github.com/unloop/unloop/gateway/internal/evidence"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/policy"
)

const (
	usersDomain = "unloop/users/1"

	// maxAskers bounds the prompts whose last end user is remembered.
	maxAskers = 8192
	// tellingMessages and tellingBytes are from how many messages, or bytes of the
	// newest one, on a prompt is hardly what many people ask by themselves.
	tellingMessages = 4
	tellingBytes    = 400
	// highestStep is the highest count that detectors take.
	highestStep = 10_000
)

// askers remembers which end user behind a key asked a prompt last. A caller is a
// key and an end user, and an agent could change the user with each request; only
// prompts that change users are counted for it, so that others cost nothing. The
// nil askers remember nobody.
type askers struct {
	mu   sync.Mutex
	last map[fingerprint.Digest]asker
}

type asker struct {
	caller string
	at     time.Time
}

func newAskers() *askers { return &askers{last: map[fingerprint.Digest]asker{}} }

// changed notes who asks a prompt, and says whether somebody else did before,
// within a window.
func (a *askers) changed(prompt fingerprint.Digest, caller string, window time.Duration, now time.Time) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	before, known := a.last[prompt]
	if !known && len(a.last) >= maxAskers {
		for old := range a.last {
			delete(a.last, old)
			break
		}
	}
	a.last[prompt] = asker{caller, now}
	return known && before.caller != caller && now.Sub(before.at) < window
}

// users lists the counters of prompts that came from another end user of the same
// key before.
func (g *Gateway) users(x *exchange, policies []*bundle.Policy, now time.Time) []*checkpb.Counter {
	hasher := g.shared.Hasher()
	if hasher == nil || x.Run != nil || x.Peek || !x.telling() {
		return nil
	}
	var out []*checkpb.Counter
	key := hasher.Caller(g.callerKey(x), "")
	for _, p := range policies {
		if p.Prompt == nil {
			continue
		}
		b := fingerprint.New(usersDomain).String(p.ID).String(key).String(x.Model())
		x.addAsked(b, p.Prompt)
		sum := b.Sum()
		if g.askers.changed(fingerprint.Bytes(sum[:]), x.Identity.GetCaller(), time.Duration(p.Prompt.WindowSeconds)*time.Second, now) {
			out = append(out, usersCounter(p, sum[:], p.Shadow(now) || p.HeldOut(x.Identity.GetSession())))
		}
	}
	return out
}

// telling says whether the request names its end user, and asks what hardly two of
// them ask by themselves.
func (x *exchange) telling() bool {
	if x.Prompt == nil || x.Prompt.User == "" || x.Prompt.Delta {
		return false
	}
	return x.Prompt.Transcript.Messages() >= tellingMessages || len(x.Prompt.Transcript.Human()) >= tellingBytes
}

func usersCounter(p *bundle.Policy, sum []byte, shadow bool) *checkpb.Counter {
	at := min(p.Prompt.TogetherSteps()[0].At, highestStep)
	return &checkpb.Counter{
		Policy: p.ID, Detector: evidence.DetectorUsers, Shadow: shadow, Window: checkpb.Window_WINDOW_SLIDING, Fingerprint: sum,
		WindowSeconds: uint32(p.Prompt.WindowSeconds), Threshold: uint32(at - 1), Steps: steps([]policy.Step{{At: at, Action: policy.Warn}}),
	}
}
