// Package owed remembers hints that no model got, because their request had no answer. A
// retry of the request, at any gateway, gets the hint again: detectors give each hint once,
// so gateways tell each other which ones they owe.
//
// It does not know what a hint says or how it is added to a request.
package owed

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

const (
	// maxHints is the maximum number of owed hints, and ttl the time for which they are owed.
	maxHints = 4096
	ttl      = 10 * time.Minute
	// maxMessage is the maximum length, in bytes, of a message about a hint.
	maxMessage = 8 << 10
	// retellEvery is the minimum time between two repetitions of all owed hints for gateways
	// that start. Messages about a hint that was given within this time are out of date.
	retellEvery = time.Second
)

// Key identifies a request by its caller and its content.
type Key struct {
	caller string
	body   fingerprint.Digest
}

// KeyOf returns the key of a request.
func KeyOf(from *request.Subject, req *request.Request) Key {
	return Key{from.Identity.GetCaller(), fingerprint.Bytes(req.Body.Inspected())}
}

// Hints has the owed hints. It is safe for concurrent use. Make it with New.
type Hints struct {
	nc  *natskit.Conn
	now func() time.Time

	mu    sync.Mutex
	hints map[Key]hint
	// given has the times at which owed hints were given. retold is the time of the last
	// repetition of all hints.
	given  map[Key]time.Time
	retold time.Time
}

type hint struct {
	finding *checkpb.Finding
	at      time.Time
}

// New returns a store without hints, which tells other gateways over a connection.
func New(nc *natskit.Conn, now func() time.Time) *Hints {
	return &Hints{nc: nc, now: now, hints: map[Key]hint{}, given: map[Key]time.Time{}}
}

// Keep notes that a hint is owed to a request.
func (h *Hints) Keep(key Key, f *checkpb.Finding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(key, f)
	h.tell(key, f)
}

// Drop notes that the hint for a request was given, if one was owed.
func (h *Hints) Drop(key Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.hints[key]; known {
		h.drop(key)
		h.tell(key, nil)
	}
}

// Any reports whether any hint is owed. It saves making a key.
func (h *Hints) Any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.hints) > 0
}

// Of returns the hint that is owed to a request; nil for none.
func (h *Hints) Of(key Key) *checkpb.Finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one, known := h.hints[key]; known && h.now().Sub(one.at) < ttl {
		return one.finding
	}
	return nil
}

// With adds the hint that is owed to a request, if there is one, to a copy of its decision.
func (h *Hints) With(d *checkpb.Decision, key Key) *checkpb.Decision {
	f := h.Of(key)
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

// keep notes a hint that is owed. h.mu must be held.
func (h *Hints) keep(key Key, f *checkpb.Finding) {
	bounded.MakeRoom(h.hints, key, maxHints)
	h.hints[key] = hint{f, h.now()}
}

// drop forgets a hint that was given. h.mu must be held.
func (h *Hints) drop(key Key) {
	delete(h.hints, key)
	bounded.MakeRoom(h.given, key, maxHints)
	h.given[key] = h.now()
}

// tell publishes to the other gateways that a hint is owed, or, if f is nil, that it was
// given. If the message is lost with the connection, only this gateway knows.
func (h *Hints) tell(key Key, f *checkpb.Finding) {
	if body, err := proto.Marshal(&checkpb.Owed{Caller: key.caller, Body: key.body[:], Finding: f}); err == nil {
		_ = h.nc.Publish(schemas.SubjectOwed, body)
	}
}

// retell repeats all owed hints for a gateway that starts, unless it did so a moment ago. It
// holds the lock, so that no hint is given in the meantime.
func (h *Hints) retell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if len(h.hints) == 0 || now.Sub(h.retold) < retellEvery {
		return
	}
	h.retold = now
	for key, one := range h.hints {
		if now.Sub(one.at) < ttl {
			h.tell(key, one.finding)
		}
	}
}

// Follow learns of the hints that other gateways owe, until the context ends. With an empty
// message it asks for those that are already owed.
func (h *Hints) Follow(ctx context.Context) error {
	stop, err := h.nc.Subscribe(schemas.SubjectOwed, h.learn)
	if err != nil {
		return err
	}
	defer stop()
	_ = h.nc.Publish(schemas.SubjectOwed, nil) // without a connection there is nobody to tell
	<-ctx.Done()
	return nil
}

func (h *Hints) learn(m *nats.Msg) {
	if len(m.Data) == 0 {
		h.retell()
		return
	}
	var msg checkpb.Owed
	if len(m.Data) > maxMessage || proto.Unmarshal(m.Data, &msg) != nil || len(msg.GetBody()) != len(fingerprint.Digest{}) {
		return
	}
	key := Key{msg.GetCaller(), fingerprint.Digest(msg.GetBody())}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch f := msg.GetFinding(); {
	case f.GetAction() != checkpb.Action_ACTION_HINT:
		h.drop(key)
	case h.now().Sub(h.given[key]) >= retellEvery:
		h.keep(key, f)
	}
}
