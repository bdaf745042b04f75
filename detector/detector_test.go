package detector_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/openloop"
	"github.com/unloop/unloop/schemas/storepb"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 30 * time.Second

// clock is a clock that a test moves.
type clock struct{ offset atomic.Int64 }

var base = time.Now()

func (c *clock) now() time.Time          { return base.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// process is a detector with a connection of its own, as if it were a process.
type process struct {
	nc      *natskit.Conn
	stop    func()
	metrics *prometheus.Registry
}

// startDetector runs a detector until the test ends or stop is called.
func startDetector(t testing.TB, s *natstest.Server, opts ...detector.Option) process {
	t.Helper()
	return startDetectorAt(t, s, s.Service(), opts...)
}

// startDetectorAt runs a detector with the given connection.
func startDetectorAt(t testing.TB, s *natstest.Server, nc *natskit.Conn, opts ...detector.Option) process {
	t.Helper()
	metrics := prometheus.NewRegistry()
	d, err := detector.New(service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: metrics, NATS: nc, Layout: s.Layout(),
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run detector: %v", err)
		}
	})
	t.Cleanup(stop)
	wait, cancelWait := context.WithTimeout(t.Context(), patience)
	defer cancelWait()
	if err := d.Readiness().Wait(wait); err != nil {
		t.Fatal(err)
	}
	return process{nc, stop, metrics}
}

// promptCheck is the check of a prompt by the default policy.
func promptCheck(prompt string) *checkpb.Check {
	fp := sha256.Sum256([]byte(prompt))
	return &checkpb.Check{
		RequestId: "req-1", Model: "m", InputTokens: 100,
		Identity: &checkpb.Identity{Tenant: "acme", Caller: "c0ffee", Session: "5e55"},
		Counters: []*checkpb.Counter{{
			Policy: "default", Detector: "prompt", Fingerprint: fp[:], Window: checkpb.Window_WINDOW_SLIDING,
			WindowSeconds: 60, Threshold: 5, CooldownSeconds: 30,
			Steps: []*checkpb.Step{{At: 6, Action: checkpb.Action_ACTION_REJECT}},
		}},
	}
}

// ask sends checks as one batch and returns the decisions.
func ask(t testing.TB, nc *nats.Conn, checks ...*checkpb.Check) []*checkpb.Decision {
	t.Helper()
	decisions, err := tryAsk(nc, patience, checks...)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	return decisions
}

func tryAsk(nc *nats.Conn, timeout time.Duration, checks ...*checkpb.Check) ([]*checkpb.Decision, error) {
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: checks, BudgetMs: uint32(patience.Milliseconds())})
	if err != nil {
		return nil, err
	}
	msg, err := nc.Request(schemas.SubjectCheck, body, timeout)
	if err != nil {
		return nil, err
	}
	var batch checkpb.DecisionBatch
	if err := proto.Unmarshal(msg.Data, &batch); err != nil {
		return nil, err
	}
	if len(checks) > 0 && batch.GetDecisions()[0].GetError() == checkpb.ErrorStalled {
		return tryAsk(nc, timeout, checks...) // a machine under load looks like a stall
	}
	if len(batch.GetDecisions()) != len(checks) {
		return nil, fmt.Errorf("%d decisions for %d checks", len(batch.GetDecisions()), len(checks))
	}
	return batch.GetDecisions(), nil
}

func TestSixthPromptIsRejectedUntilTheWindowForgets(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	var c clock
	startDetector(t, s, detector.WithClock(c.now))
	nc := s.Conn()
	for i := range 5 {
		if d := ask(t, nc, promptCheck("p"))[0]; d.GetAction() != checkpb.Action_ACTION_ALLOW || d.GetHitCounts()[0] != uint32(i+1) {
			t.Fatalf("hit %d: %v", i+1, d)
		}
	}
	d := ask(t, nc, promptCheck("p"))[0]
	if d.GetAction() != checkpb.Action_ACTION_REJECT || d.GetFindings()[0].GetBlockedMs() != 30_000 || d.GetFindings()[0].GetLoopId() == "" {
		t.Fatalf("sixth hit: %v; want a reject that stands for 30 s, with its loop's id", d)
	}
	c.advance(10 * time.Second)
	if d := ask(t, nc, promptCheck("p"))[0]; d.GetFindings()[0].GetBlockedMs() != 20_000 {
		t.Errorf("ten seconds later: %v; want 20 s left", d)
	}
	c.advance(61 * time.Second)
	if d := ask(t, nc, promptCheck("p"))[0]; d.GetAction() != checkpb.Action_ACTION_ALLOW || d.GetHitCounts()[0] != 1 {
		t.Errorf("after the window: %v; want a first hit", d)
	}
}

func TestEveryCounterIsEvaluatedAndTheStrongestActionWins(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	check := promptCheck("p")
	fp := sha256.Sum256([]byte("request"))
	check.Counters = append(check.Counters,
		&checkpb.Counter{
			Policy: "watch", Detector: "request", Fingerprint: fp[:], Window: checkpb.Window_WINDOW_REFRESH, WindowSeconds: 60,
			Threshold: 2, Steps: []*checkpb.Step{{At: 2, Action: checkpb.Action_ACTION_WARN}},
		},
		&checkpb.Counter{
			Policy: "trial", Detector: "request", Fingerprint: fp[:], Window: checkpb.Window_WINDOW_REFRESH, WindowSeconds: 60, Shadow: true,
			Threshold: 3, Steps: []*checkpb.Step{{At: 3, Action: checkpb.Action_ACTION_BREAK}},
		})
	var got []string
	for range 6 {
		d := ask(t, nc, check)[0]
		line := d.GetAction().Label()
		for _, f := range d.GetFindings() {
			line += " " + f.GetPolicy()
		}
		got = append(got, line)
	}
	want := []string{"allow", "warn watch", "warn watch trial", "warn watch trial", "warn watch trial", "reject default watch trial"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions and findings by request (-want +got):\n%s", diff)
	}
}

func TestPoliciesAndModesCountApart(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	live, shadow, other := promptCheck("p"), promptCheck("p"), promptCheck("p")
	shadow.Counters[0].Shadow = true
	other.Counters[0].Policy = "other"
	for range 3 {
		ask(t, nc, live)
	}
	for name, check := range map[string]*checkpb.Check{"shadow": shadow, "other policy": other} {
		if d := ask(t, nc, check)[0]; d.GetHitCounts()[0] != 1 {
			t.Errorf("%s: count %d, want 1", name, d.GetHitCounts()[0])
		}
	}
}

func TestPeekCountsNothing(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	peek := promptCheck("p")
	peek.Peek = true
	for range 5 {
		ask(t, nc, promptCheck("p"))
	}
	for range 3 {
		if d := ask(t, nc, peek)[0]; d.GetAction() != checkpb.Action_ACTION_REJECT || d.GetHitCounts()[0] != 6 {
			t.Fatalf("peek: %v; want what the sixth would get, each time", d)
		}
	}
	if loops := storedIncidents(t, s); len(loops) != 0 {
		t.Errorf("peeking opened %d incidents", len(loops))
	}
}

func TestFailedCallExcusesItsReplay(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	check := promptCheck("p")
	ask(t, nc, check)
	body, err := proto.Marshal(&checkpb.Outcome{Counters: check.Counters})
	if err != nil {
		t.Fatal(err)
	}
	watch := watchKey(t, s, schemas.BucketCounters)
	if err := nc.Publish(schemas.SubjectOutcome, body); err != nil {
		t.Fatal(err)
	}
	watch(func(value []byte) bool {
		var state storepb.Counter
		return proto.Unmarshal(value, &state) == nil && state.GetExcused()
	})
	if d := ask(t, nc, check)[0]; d.GetHitCounts()[0] != 1 {
		t.Errorf("replay after a failure has count %d, want 1", d.GetHitCounts()[0])
	}
}

func TestHitsOnABlockAreReportedInBatches(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	for range 6 {
		ask(t, nc, promptCheck("p"))
	}
	report := promptCheck("p")
	report.Hits = 500
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{report}})
	if err != nil {
		t.Fatal(err)
	}
	watch := watchKey(t, s, schemas.BucketIncidents)
	if err := nc.Publish(schemas.SubjectCheck, body); err != nil {
		t.Fatal(err)
	}
	watch(func(value []byte) bool {
		var in openloop.Record
		return in.Parse(value) == nil && in.HitCount == 506 && in.Saved.Requests == 501 && in.Saved.InputTokens == 50_100
	})
}

func TestReleaseEndsALoopEverywhere(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s)
	nc := s.Conn()
	forgotten := make(chan *checkpb.Forget, 1)
	if _, err := nc.Subscribe(schemas.SubjectForget, func(m *nats.Msg) {
		var f checkpb.Forget
		if proto.Unmarshal(m.Data, &f) == nil {
			forgotten <- &f
		}
	}); err != nil {
		t.Fatal(err)
	}
	var loopID string
	for range 8 {
		for _, f := range ask(t, nc, promptCheck("p"))[0].GetFindings() {
			loopID = f.GetLoopId()
		}
	}
	if reply := release(t, nc, loopID); reply.GetError() != "" || len(reply.GetReleased()) != 1 {
		t.Fatalf("release: %v", reply)
	}
	select {
	case f := <-forgotten:
		if len(f.GetCounters()) != 1 || f.GetCounters()[0].GetDetector() != "prompt" {
			t.Errorf("gateways are told to forget %v", f)
		}
	case <-time.After(patience):
		t.Fatal("gateways are not told")
	}
	if loops := storedIncidents(t, s); len(loops) != 0 {
		t.Errorf("%d incidents are left", len(loops))
	}
	if d := ask(t, nc, promptCheck("p"))[0]; d.GetHitCounts()[0] != 1 {
		t.Errorf("first hit after the release has count %d", d.GetHitCounts()[0])
	}
	if reply := release(t, nc, loopID); reply.GetError() == "" {
		t.Error("a loop that is not open was released")
	}
}

func release(t *testing.T, nc *nats.Conn, id string) *checkpb.ReleaseReply {
	t.Helper()
	body, err := proto.Marshal(&checkpb.ReleaseRequest{LoopId: id})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := nc.Request(schemas.SubjectRelease, body, patience)
	if err != nil {
		t.Fatal(err)
	}
	var reply checkpb.ReleaseReply
	if err := proto.Unmarshal(msg.Data, &reply); err != nil {
		t.Fatal(err)
	}
	return &reply
}

// A record goes by itself: its TTL is with the message in JetStream, and the
// server drops it.
func TestIdleCounterExpiresInJetStream(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	js := s.JetStream()
	stream, err := js.Stream(t.Context(), "KV_"+schemas.BucketCounters)
	if err != nil {
		t.Fatal(err)
	}
	// Markers make the expiry visible; in production counters have none.
	cfg := stream.CachedInfo().Config
	cfg.SubjectDeleteMarkerTTL = time.Minute
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	check := promptCheck("p")
	check.Counters[0].WindowSeconds, check.Counters[0].CooldownSeconds = 1, 0
	ask(t, s.Conn(), check)
	key := schemas.CounterKey(false, "prompt", "default", check.Counters[0].Fingerprint)
	consumer, err := js.OrderedConsumer(t.Context(), "KV_"+schemas.BucketCounters, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"$KV." + schemas.BucketCounters + "." + key},
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatalf("the record of an idle counter did not go: %v", err)
		}
		if msg.Headers().Get("Nats-Marker-Reason") == "MaxAge" {
			return
		}
		if ttl := msg.Headers().Get("Nats-TTL"); ttl == "" || ttl == "0" {
			t.Fatalf("record is stored with TTL %q", ttl)
		}
	}
}

func TestMessagesThatNoGatewaySendsDoNoHarm(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	for _, subject := range []string{schemas.SubjectCheck, schemas.SubjectRelease, schemas.SubjectOutcome, schemas.SubjectForget} {
		for _, body := range []string{"", "\xff\xff\xff\xff", `{"json": true}`} {
			if err := nc.Publish(subject, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	bad := promptCheck("p")
	bad.Counters[0].Fingerprint = []byte("short")
	wild := promptCheck("p")
	wild.Identity.Session = "no hash: .*> \x00"
	for range 6 {
		ask(t, nc, wild)
	}
	d := ask(t, nc, bad, wild)
	if d[0].GetError() == "" {
		t.Errorf("malformed check: %v; want an error", d[0])
	}
	if d[1].GetAction() != checkpb.Action_ACTION_REJECT || d[1].GetFindings()[0].GetLoopId() == "" {
		t.Errorf("strange session: %v; want a reject with an incident", d[1])
	}
}

func TestStoreDownLeavesTheDecisionToTheGateway(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	nc := s.Conn()
	js := s.JetStream()
	var d *checkpb.Decision
	for range 10 { // the detector may make the bucket again before it is asked
		if err := js.DeleteStream(t.Context(), "KV_"+schemas.BucketCounters); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
		if d = ask(t, nc, promptCheck("p"))[0]; d.GetError() != "" {
			break
		}
	}
	if d.GetError() == "" || d.GetHitCounts()[0] != 0 || len(d.GetFindings()) != 0 {
		t.Errorf("without a store: %v; want an error, count 0", d)
	}
}
