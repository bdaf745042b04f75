package deliver

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/notifier/internal/outbox"
	"github.com/unloop/unloop/notifier/internal/pull"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/notifier/internal/sink"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/silence"
)

// patience bounds waits that only a fault makes long.
const patience = 20 * time.Second

// hook is an endpoint's service. It takes every message, or refuses all for now.
type hook struct {
	refuses bool
	got     chan string // the ids of messages
}

func newHook(refuses bool) *hook { return &hook{refuses, make(chan string, 10_000)} }

func (h *hook) Send(_ context.Context, m *sink.Message) error {
	h.got <- m.ID
	if h.refuses {
		return &sink.Error{Reason: "no"}
	}
	return nil
}

func (*hook) Close() {}

func (h *hook) next(t *testing.T) string {
	t.Helper()
	select {
	case id := <-h.got:
		return id
	case <-time.After(patience):
		t.Fatal("nothing was sent")
		panic("unreachable")
	}
}

// running is a pipeline whose endpoints take in all events of a server until stop, or until
// the test ends.
type running struct {
	*Pipeline
	js       jetstream.JetStream
	silences atomic.Pointer[[]silence.Silence]
	stop     func()
}

// start runs a pipeline with endpoints by their names.
func start(t *testing.T, s *natstest.Server, hooks map[string]*hook) *running {
	t.Helper()
	r := &running{js: s.JetStream()}
	r.silences.Store(&[]silence.Silence{})
	log := slog.New(slog.DiscardHandler)
	r.Pipeline = New(Config{NATS: s.Service(), Layout: s.Layout(), Log: log, Silences: func() []silence.Silence { return *r.silences.Load() }, Grace: time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for name, h := range hooks {
		r.Use(&Endpoint{
			Name: name, Kind: "test", Sink: h, Routes: []routing.Route{{Name: "all"}}, Schedule: outbox.Schedule{time.Hour}, Timeout: time.Minute, Concurrency: 4,
		})
		in := pull.New(r.NATS, pull.Config{Endpoint: name, Since: pull.All, Layout: r.Layout, State: func(error) {}, Missed: r.Missed(name)},
			func(ctx context.Context, msg jetstream.Msg) { r.Accept(ctx, name, msg) }, log)
		all.Go(func() { r.Run(ctx, name) })
		all.Go(func() {
			if err := in.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(r.stop)
	return r
}

// publish puts an event of a loop on the stream, and returns its id.
func (r *running) publish(t *testing.T, typ event.Type, loop string) string {
	t.Helper()
	e := event.New(typ, loop+"."+string(typ), time.Now())
	e.Data.LoopID, e.Data.Policy, e.Data.FirstSeen, e.Data.LastSeen, e.Data.Findings = loop, "p", e.Timestamp, e.Timestamp, []event.Finding{}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.Publish(t.Context(), e.Subject(), body); err != nil {
		t.Fatal(err)
	}
	return e.ID
}

func (r *running) stream(t *testing.T, name string) jetstream.Stream {
	t.Helper()
	stream, err := r.js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// bound gives the bucket of what endpoints are owed room for so many bytes.
func (r *running) bound(t *testing.T, bytes int64) {
	t.Helper()
	cfg := r.stream(t, natskit.BucketStream(schemas.BucketNotifications)).CachedInfo().Config
	cfg.MaxBytes = bytes
	if _, err := r.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

// awaitTakenIn waits until an endpoint has taken in all events.
func (r *running) awaitTakenIn(t *testing.T, endpoint string) {
	t.Helper()
	await(t, "the events are taken in", func() bool {
		consumer, err := r.js.Consumer(t.Context(), schemas.StreamEvents, schemas.EndpointConsumer(endpoint))
		if err != nil {
			return false
		}
		info := consumer.CachedInfo()
		return info.NumPending == 0 && info.NumAckPending == 0
	})
}
