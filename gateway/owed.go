package gateway

import (
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/bounded"
	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// maxOwed bounds the hints that are owed, and owedFor how long they are.
	maxOwed = 4096
	owedFor = 10 * time.Minute
)

// owed remembers the hints that no model got, since their request had no answer. A replay
// of the request bears its hint again: detectors give each once. The zero value is ready
// to use; many goroutines may use it at once.
type owed struct {
	mu    sync.Mutex
	hints map[owedKey]owedHint
}

// owedKey is a request, by its caller and its content.
type owedKey struct {
	caller string
	body   fingerprint.Digest
}

type owedHint struct {
	finding *checkpb.Finding
	at      time.Time
}

func (o *owed) keep(now time.Time, key owedKey, f *checkpb.Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hints == nil {
		o.hints = map[owedKey]owedHint{}
	}
	bounded.MakeRoom(o.hints, key, maxOwed)
	o.hints[key] = owedHint{f, now}
}

func (o *owed) drop(key owedKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.hints, key)
}

func (o *owed) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.hints) > 0
}

// of returns the hint that is owed to a request; nil for none.
func (o *owed) of(now time.Time, key owedKey) *checkpb.Finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h, known := o.hints[key]; known && now.Sub(h.at) < owedFor {
		return h.finding
	}
	return nil
}

// addOwed adds the hint that is owed to a request, unless detectors find more.
func (g *Gateway) addOwed(c *checked) {
	if c.account.Request.Asked || c.account.Request.Peek || !g.owed.any() || outcome.Strongest(c.Decision).GetAction() >= checkpb.Action_ACTION_HINT {
		return
	}
	if f := g.owed.of(g.now(), c.owedKey()); f != nil {
		with := &checkpb.Decision{}
		if c.Decision != nil {
			with = proto.CloneOf(c.Decision)
		}
		with.Action, with.Findings = max(with.GetAction(), f.GetAction()), append(with.GetFindings(), f)
		c.Decision = with
	}
}

// owe notes that a request goes out with a hint, which is owed until there is an answer.
func (g *Gateway) owe(c *checked, out *outcome.Outcome) {
	if !out.Forwards() || out.Finding.GetAction() != checkpb.Action_ACTION_HINT || c.account.Request.Asked {
		return
	}
	key, f := c.owedKey(), out.Finding
	c.account.Excused = func() { g.owed.keep(g.now(), key, f) }
	c.account.Answered = func() { g.owed.drop(key) }
}

func (c *checked) owedKey() owedKey {
	return owedKey{c.from.Identity.GetCaller(), fingerprint.Bytes(c.account.Request.Body.Inspected())}
}
