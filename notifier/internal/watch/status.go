package watch

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/status"
)

const (
	// pollFor bounds the listing of streams.
	pollFor = 800 * time.Millisecond
	// fresh is how long replies are cached.
	fresh = time.Second
)

// polls caches the status replies of the parts.
type polls struct {
	mu    sync.Mutex
	at    time.Time
	fleet board.Fleet
}

// Stream is the size of a stream or bucket.
type Stream struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// MaxBytes is 0 if there is no bound.
	MaxBytes int64 `json:"max_bytes"`
	Replicas int   `json:"replicas"`
}

// Health describes the parts of the system.
type Health struct {
	Parts []board.Running `json:"parts"`
	// NATS is why NATS can't be used; empty if it can.
	NATS    string   `json:"nats,omitempty"`
	Server  string   `json:"server,omitempty"`
	Streams []Stream `json:"streams"`
	// Partitions are those of each bucket of state; nil if unknown.
	Partitions *partition.State `json:"partitions,omitempty"`
}

// Health asks the parts for their status. Parts that do not answer are silent.
func (w *Watcher) Health(ctx context.Context) Health {
	h := Health{Parts: w.parts(ctx), Streams: []Stream{}}
	if err := w.nc.Ready(); err != nil {
		h.NATS = err.Error()
	}
	if w.nc.Err() != nil {
		return h
	}
	h.Server = w.nc.NATS().ConnectedServerName()
	ctx, cancel := context.WithTimeout(ctx, pollFor)
	defer cancel()
	list := w.nc.JetStream().ListStreams(ctx)
	for info := range list.Info() {
		if scheme, has := natskit.SchemeOf(info.Config); has {
			state := scheme.State()
			h.Partitions = &state
		}
		name := strings.TrimPrefix(info.Config.Name, "KV_")
		if strings.HasPrefix(name, "LOOP_") {
			h.Streams = append(h.Streams, Stream{
				Name: name, Messages: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: max(info.Config.MaxBytes, 0), Replicas: info.Config.Replicas,
			})
		}
	}
	return h
}

// parts returns the parts with their cached or new replies.
func (w *Watcher) parts(ctx context.Context) []board.Running {
	p := &w.polls
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < fresh {
		return p.fleet.All()
	}
	var replies []status.Status
	if w.nc.Err() == nil {
		replies = operator.Parts(ctx, w.nc.NATS())
	}
	if ctx.Err() == nil {
		p.at = time.Now()
		p.fleet.Heard(replies, p.at)
	}
	return p.fleet.All()
}

// Bundles returns the bundles in force at the gateways.
func (w *Watcher) Bundles(ctx context.Context) []board.InForce { return board.Bundles(w.parts(ctx)) }
