package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/memory/account"
	"github.com/unloop/unloop/gateway/internal/share/bounded"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
)

const (
	// maxOwed bounds the hints that are owed, and owedFor how long they are.
	maxOwed = 4096
	owedFor = 10 * time.Minute
	// maxOwedMessage is the largest message about a hint that is read, in bytes.
	maxOwedMessage = 8 << 10
)

// owed remembers the hints that no model got, since their request had no answer. A replay
// of the request bears its hint again, at whichever gateway: detectors give each once. The zero value is ready
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

// drop forgets the hint for a request, and reports whether there was one.
func (o *owed) drop(key owedKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.hints[key]
	delete(o.hints, key)
	return known
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

// withOwed returns the decision on a request with the hint that is owed to it, unless
// detectors find more.
func (g *Gateway) withOwed(e *exchange) *checkpb.Decision {
	d := e.answer.Decision
	if e.req.Asked || e.req.Peek || !g.owed.any() || outcome.Strongest(d).GetAction() >= checkpb.Action_ACTION_HINT {
		return d
	}
	f := g.owed.of(g.now(), owedKeyOf(&e.from, e.req))
	if f == nil {
		return d
	}
	with := &checkpb.Decision{}
	if d != nil {
		with = proto.CloneOf(d)
	}
	with.Action, with.Findings = max(with.GetAction(), f.GetAction()), append(with.GetFindings(), f)
	return with
}

// owe notes that a request goes out with a hint, which is owed until there is an answer.
func (g *Gateway) owe(a *account.Account, out *outcome.Outcome) {
	if !out.Forwards() || out.Finding.GetAction() != checkpb.Action_ACTION_HINT {
		return
	}
	key, f := owedKeyOf(&a.Subject, a.Request), out.Finding
	a.Excused = func() {
		g.owed.keep(g.now(), key, f)
		g.tellOwed(key, f)
	}
	a.Answered = func() {
		if g.owed.drop(key) {
			g.tellOwed(key, nil)
		}
	}
}

// tellOwed tells the other gateways of a hint that is owed, or with nil that it was given.
// If the message is lost with the connection, only this gateway knows.
func (g *Gateway) tellOwed(key owedKey, f *checkpb.Finding) {
	if body, err := proto.Marshal(&checkpb.Owed{Caller: key.caller, Body: key.body[:], Finding: f}); err == nil {
		_ = g.deps.NATS.Publish(schemas.SubjectOwed, body)
	}
}

// followOwed learns of the hints that other gateways owe until the context ends.
func (g *Gateway) followOwed(ctx context.Context) error {
	stop, err := g.deps.NATS.Subscribe(schemas.SubjectOwed, g.onOwed)
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

func (g *Gateway) onOwed(m *nats.Msg) {
	var msg checkpb.Owed
	if len(m.Data) > maxOwedMessage || proto.Unmarshal(m.Data, &msg) != nil || len(msg.GetBody()) != len(fingerprint.Digest{}) {
		return
	}
	key := owedKey{msg.GetCaller(), fingerprint.Digest(msg.GetBody())}
	if f := msg.GetFinding(); f.GetAction() == checkpb.Action_ACTION_HINT {
		g.owed.keep(g.now(), key, f)
	} else {
		g.owed.drop(key)
	}
}

func owedKeyOf(from *request.Subject, req *request.Request) owedKey {
	return owedKey{from.Identity.GetCaller(), fingerprint.Bytes(req.Body.Inspected())}
}
