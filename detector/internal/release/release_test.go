package release_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector/internal/blocks"
	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/detector/internal/limit"
	"github.com/unloop/unloop/detector/internal/recorder"
	"github.com/unloop/unloop/detector/internal/release"
	"github.com/unloop/unloop/detector/internal/streak"
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/ledger"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/storepb"
)

var errNo = errors.New("no")

// failing is a store that takes nothing.
type failing[S any] struct{}

func (failing[S]) Apply(context.Context, string, ledger.Step[S]) error { return errNo }

// fixture is a releaser on a server.
type fixture struct {
	release.Releaser
	streaks   *ledger.Memory[streak.State]
	limits    *ledger.Memory[limit.State]
	counters  *ledger.Memory[counter.State]
	published chan *checkpb.Forget
}

func newFixture(t *testing.T, s *natstest.Server) *fixture {
	t.Helper()
	conn, log := s.Service(), slog.New(slog.DiscardHandler)
	f := &fixture{
		streaks: ledger.NewMemory[streak.State](time.Now), limits: ledger.NewMemory[limit.State](time.Now),
		counters: ledger.NewMemory[counter.State](time.Now), published: make(chan *checkpb.Forget, 64),
	}
	f.Releaser = release.Releaser{
		Log: log, Now: time.Now, Counters: f.counters, Sessions: ledger.NewMemory[toolloop.State](time.Now), Budgets: f.limits, Streaks: f.streaks,
		Blocks: blocks.New(conn, prometheus.NewRegistry(), log, time.Now), Incidents: recorder.New(conn, natskit.Layout{}, prometheus.NewRegistry(), log, time.Now),
		Publish: func(_ string, body []byte) error {
			var forget checkpb.Forget
			err := proto.Unmarshal(body, &forget)
			f.published <- &forget
			return err
		},
	}
	return f
}

// open opens an incident of a detector and its related counters, and returns its id.
func (f *fixture) open(t *testing.T, detector string, related ...openloop.Counter) string {
	t.Helper()
	id, err := f.Incidents.Record(t.Context(), incident.Finding{
		Conversation: "aa", Policy: "p", Detector: detector, Action: checkpb.Action_ACTION_REJECT, Fingerprint: []byte{1}, Hits: 1, Count: 6, WindowSeconds: 60,
		At: time.Now(), Related: related,
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAReleaseResetsAllRecordsOfALoop(t *testing.T) {
	t.Parallel()
	f := newFixture(t, natstest.Start(t))
	id := f.open(t, "prompt", openloop.Counter{Detector: "semantic", Fingerprint: "02"}, openloop.Counter{Detector: "tool", Fingerprint: "03"},
		openloop.Counter{Detector: finding.CircuitBreaker, Fingerprint: "04"})
	limitKey, streakKey := schemas.LimitKey(false, "p", finding.CircuitBreaker, []byte{4}), schemas.StreakKey(false, "p", []byte{2})
	if err := f.limits.Apply(t.Context(), limitKey, func(limit.State) (limit.State, time.Duration) { return limit.State{Opened: 1}, time.Hour }); err != nil {
		t.Fatal(err)
	}
	reply := f.Release(id)
	if reply.GetError() != "" || reply.GetCount() != 4 || len(reply.GetReleased()) != 4 {
		t.Fatalf("released %v", reply)
	}
	if s, _ := f.limits.Read(t.Context(), limitKey); s.Opened != 0 {
		t.Errorf("breaker %+v", s)
	}
	if s, _ := f.streaks.Read(t.Context(), streakKey); s.Released == 0 {
		t.Errorf("streak %+v", s)
	}
	var last *checkpb.Forget
	for len(f.published) > 0 {
		last = <-f.published
	}
	if last.GetLoopId() != id || len(last.GetCounters()) != 4 {
		t.Errorf("others are told to forget %v", last)
	}
	f.Forget(last)
	if again := f.open(t, "prompt"); again == id {
		t.Error("a loop that was released is open")
	}
	if reply := f.Release(id); !strings.Contains(reply.GetError(), "no open loop") {
		t.Errorf("released twice: %v", reply)
	}
}

// Another detector may be told of the block and of its release late, and in another order.
func TestAReleasedCounterIsNotBlockedAgainByADetectorThatHearsLate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, natstest.Start(t))
	key := schemas.CounterKey(false, "prompt", "p", []byte{1})
	block := &nats.Msg{
		Subject: strings.TrimSuffix(blocks.Subjects, ">") + key,
		Data:    storepb.Append(nil, &storepb.Blocks{Blocks: []*storepb.Block{{Began: time.Now().UnixMilli(), Until: time.Now().Add(time.Hour).UnixMilli()}}}),
	}
	late := blocks.New(natstest.Start(t).Service(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler), time.Now)
	late.OnStored(block)
	if got := late.Restore(key, counter.State{}, time.Now()); got.BlockedUntil == 0 {
		t.Fatal("a counter without a record is not blocked before the release")
	}
	if reply := f.Release(f.open(t, "prompt")); reply.GetError() != "" {
		t.Fatal(reply)
	}
	released, err := f.counters.Read(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got := late.Restore(key, released, time.Now()); got.BlockedUntil != 0 {
		t.Error("a detector that was not told of the release yet restores the block")
	}
	late.Forget(key, "")
	late.OnStored(block)
	if got := late.Restore(key, counter.State{}, time.Now()); got.BlockedUntil != 0 {
		t.Error("a detector that is told of the block after its release restores it")
	}
}

func TestAReleaseThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	mute := func(f *fixture) { f.Publish = func(string, []byte) error { return errNo } }
	for name, c := range map[string]struct {
		detector string
		edit     func(*natstest.Server, *fixture)
		want     string
	}{
		"the sessions":      {"tool", func(_ *natstest.Server, f *fixture) { f.Sessions = failing[toolloop.State]{} }, "the store did not answer"},
		"the breakers":      {finding.CircuitBreaker, func(_ *natstest.Server, f *fixture) { f.Budgets = failing[limit.State]{} }, "the store did not answer"},
		"a counter's block": {"prompt", func(_ *natstest.Server, f *fixture) { mute(f) }, "the store did not answer"},
		"gateways":          {"semantic", func(_ *natstest.Server, f *fixture) { mute(f) }, "gateways were not told"},
		"counters":          {"prompt", func(_ *natstest.Server, f *fixture) { f.Counters = failing[counter.State]{} }, "the store did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			f := newFixture(t, s)
			id := f.open(t, c.detector)
			c.edit(s, f)
			if reply := f.Release(id); !strings.Contains(reply.GetError(), c.want) {
				t.Errorf("%v, want %s", reply, c.want)
			}
		})
	}
}
