package blocks

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/counter"
	"github.com/unloop/unloop/detector/internal/evaluate"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/storepb"
)

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

func newBlocks(s *natstest.Server) *Blocks {
	return New(s.Service(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler), func() time.Time { return noon })
}

// cooldown is a cooldown of 30 seconds.
func cooldown(key, part string) *evaluate.Cooldown {
	return &evaluate.Cooldown{Finding: &checkpb.Finding{BlockedMs: 30_000}, Key: key, Part: part, Incident: "aa", At: noon}
}

func until(d time.Duration) int64 { return noon.Add(d).UnixMilli() }

func TestBlocksThatStandAreRestored(t *testing.T) {
	t.Parallel()
	b := newBlocks(natstest.Start(t))
	b.learn("one", record{Blocks: []*storepb.Block{{Until: until(time.Second), Incident: "aa"}}}, noon)
	b.learn("parts", record{Blocks: []*storepb.Block{{Mark: "m", Until: until(time.Second), Incident: "aa"}, {Mark: "over", Until: until(0)}}}, noon)
	blocked := counter.State{BlockedUntil: until(time.Second), Incident: "aa"}
	known := counter.State{Count: 1}
	for name, c := range map[string]struct {
		key         string
		given, want counter.State
	}{
		"one count":        {"one", counter.State{}, blocked},
		"parts":            {"parts", counter.State{}, counter.State{Parts: []counter.Part{{Mark: "m", State: blocked}}}},
		"a known counter":  {"one", known, known},
		"no block":         {"other", counter.State{}, counter.State{}},
		"a counter's part": {"parts", counter.State{Parts: []counter.Part{{}}}, counter.State{Parts: []counter.Part{{}}}},
	} {
		if diff := cmp.Diff(c.want, b.Restore(c.key, c.given, noon)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	b.Forget("one", "")
	if s := b.Restore("one", counter.State{}, noon); s.BlockedUntil != 0 {
		t.Errorf("a released block: %+v", s)
	}
}

// Other detectors learn a block when it is stored, and those that start later read it.
func TestBlocksAreSharedAmongDetectors(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	first, second := newBlocks(s), newBlocks(s)
	learned := make(chan struct{}, 8)
	if _, err := second.conn.Subscribe(Subjects, func(m *nats.Msg) {
		second.OnStored(m)
		learned <- struct{}{}
	}); err != nil {
		t.Fatal(err)
	}
	second.conn.Flush(time.Second)
	first.Keep(cooldown("key", "a"))
	<-learned
	first.Keep(cooldown("key", "b"))
	<-learned
	third := newBlocks(s)
	if err := third.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, b := range []*Blocks{first, second, third} {
		if s := b.Restore("key", counter.State{}, noon); len(s.Parts) != 2 || s.Parts[0].State.BlockedUntil != until(30*time.Second) {
			t.Errorf("detector %d: %+v", i+1, s)
		}
	}
	second.OnStored(&nats.Msg{Subject: subject + "key", Data: []byte("no JSON")})
	second.OnStored(&nats.Msg{Subject: subject + "key"})
	if s := second.Restore("key", counter.State{}, noon); len(s.Parts) != 2 {
		t.Errorf("after messages that are no records: %+v", s)
	}
}

func TestRememberedBlocksAreBounded(t *testing.T) {
	t.Parallel()
	b := newBlocks(natstest.Start(t))
	for i := range maxStanding {
		b.learn(fmt.Sprint(i), record{Blocks: []*storepb.Block{{Until: until(time.Second)}}}, noon)
	}
	b.learn("more", record{Blocks: []*storepb.Block{{Until: until(time.Hour)}}}, noon)
	if len(b.standing) != maxStanding {
		t.Errorf("%d counters", len(b.standing))
	}
	b.learn("later", record{Blocks: []*storepb.Block{{Until: until(time.Hour)}}}, noon.Add(time.Minute))
	if len(b.standing) != 1 {
		t.Errorf("%d counters after all blocks are over", len(b.standing))
	}
}

func TestWithoutTheBucketBlocksCanNotBeRead(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	if err := s.JetStream().DeleteStream(t.Context(), "KV_"+schemas.BucketBlocks); err != nil {
		t.Fatal(err)
	}
	b := newBlocks(s)
	if err := b.Load(t.Context()); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("read: %v", err)
	}
	b.Keep(cooldown("key", ""))
}
