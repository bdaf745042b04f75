package checker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 30 * time.Second

// clock is a clock that a test moves.
type clock struct{ offset atomic.Int64 }

var base = time.Now()

func (c *clock) now() time.Time          { return base.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// detector answers batches as a test says; nil is no answer.
func detector(t *testing.T, s *natstest.Server, answer func(*checkpb.CheckBatch) []byte) {
	t.Helper()
	nc := s.Conn()
	_, err := nc.QueueSubscribe(schemas.SubjectCheck, schemas.QueueDetector, func(m *nats.Msg) {
		var batch checkpb.CheckBatch
		if err := proto.Unmarshal(m.Data, &batch); err != nil {
			t.Errorf("batch: %v", err)
			return
		}
		if body := answer(&batch); body != nil && m.Reply != "" {
			_ = m.Respond(body)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// each answers every check of a batch alike.
func each(t *testing.T, decide func(*checkpb.Check) *checkpb.Decision) func(*checkpb.CheckBatch) []byte {
	return func(batch *checkpb.CheckBatch) []byte {
		var out checkpb.DecisionBatch
		for _, c := range batch.GetChecks() {
			out.Decisions = append(out.Decisions, decide(c))
		}
		body, err := proto.Marshal(&out)
		if err != nil {
			t.Error(err)
		}
		return body
	}
}

func newChecker(nc *natskit.Conn, timeout time.Duration, now func() time.Time) *Checker {
	return New(nc, timeout, now, prometheus.NewRegistry())
}

// unstarved is newChecker for a process that never lacks a processor: what the machine does
// beside the test changes nothing.
func unstarved(nc *natskit.Conn, timeout time.Duration) *Checker {
	never := func() bool { return false }
	c := New(nc, timeout, time.Now, prometheus.NewRegistry())
	c.starved = never
	c.inbox.Starving(never)
	return c
}

func checkOf(id string) *checkpb.Check {
	return &checkpb.Check{RequestId: id, Counters: []*checkpb.Counter{{Policy: "p", Detector: "prompt", Fingerprint: []byte(id), WindowSeconds: 60, CooldownSeconds: 30}}}
}

// blocking is a decision whose reject stands for ten seconds.
func blocking(c *checkpb.Check) *checkpb.Decision {
	return &checkpb.Decision{Action: checkpb.Action_ACTION_REJECT, Findings: []*checkpb.Finding{blockFinding(c.GetRequestId())}}
}

func blockFinding(id string) *checkpb.Finding {
	return &checkpb.Finding{
		Policy: "p", Detector: "prompt", Fingerprint: []byte(id), Action: checkpb.Action_ACTION_REJECT,
		HitCount: 6, BlockedMs: 10_000, LoopId: "loop",
	}
}

func TestEachCheckGetsItsOwnDecisionAndTheyShareMessages(t *testing.T) {
	t.Parallel()
	const checks = 2000
	s := natstest.StartBare(t)
	var messages atomic.Int64
	echo := each(t, func(c *checkpb.Check) *checkpb.Decision {
		return &checkpb.Decision{Error: "", HitCounts: []uint32{uint32(len(c.GetRequestId()))}, Findings: []*checkpb.Finding{{LoopId: c.GetRequestId()}}}
	})
	detector(t, s, func(b *checkpb.CheckBatch) []byte { messages.Add(1); return echo(b) })
	c := newChecker(s.Service(), patience, time.Now)
	var wg sync.WaitGroup
	for i := range checks {
		wg.Go(func() {
			id := fmt.Sprint("request ", i)
			d, local, err := c.Check(t.Context(), checkOf(id))
			if err != nil || local || d.GetFindings()[0].GetLoopId() != id {
				t.Errorf("%s: decision %v, local %v, %v", id, d, local, err)
			}
		})
	}
	wg.Wait()
	if n := messages.Load(); n >= checks {
		t.Errorf("%d messages for %d checks at once", n, checks)
	}
}

func TestWhyThereIsNoDecision(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	if _, _, err := newChecker(s.Service(), patience, time.Now).Check(t.Context(), checkOf("x")); !errors.Is(err, ErrNoDetector) {
		t.Errorf("without a detector: %v", err)
	}
	gone := s.Service()
	gone.Close()
	if _, _, err := newChecker(gone, patience, time.Now).Check(t.Context(), checkOf("x")); !errors.Is(err, ErrNoDetector) {
		t.Errorf("without a connection: %v", err)
	}
	for name, c := range map[string]struct {
		answer func(*checkpb.CheckBatch) []byte
		want   error
	}{
		"silence":         {func(*checkpb.CheckBatch) []byte { return nil }, ErrTimeout},
		"junk":            {func(*checkpb.CheckBatch) []byte { return []byte("\xff\xff") }, ErrDetector},
		"too few answers": {func(*checkpb.CheckBatch) []byte { return []byte{} }, ErrDetector},
		"an error":        {each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{Error: "overloaded"} }), ErrDetector},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.StartBare(t)
			detector(t, s, c.answer)
			checker := newChecker(s.Service(), patience, time.Now)
			if errors.Is(c.want, ErrTimeout) {
				checker = unstarved(s.Service(), 20*time.Millisecond)
			}
			if _, _, err := checker.Check(t.Context(), checkOf("x")); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

// A detector of this process that refuses at once must not be called from within
// its own answers, ever deeper as more checks wait.
func TestAnswersWithinRequestsDoNotNest(t *testing.T) {
	t.Parallel()
	const waiting = 2000
	near := natskit.NewInProcess()
	held, release := make(chan struct{}, maxSent), make(chan struct{})
	var asked, deepest atomic.Int64
	refuse := each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{Error: "overloaded"} })
	near.Serve(schemas.SubjectCheck, func(r natskit.Request) {
		if asked.Add(1) <= maxSent {
			held <- struct{}{}
			<-release
		}
		depth := int64(runtime.Callers(0, make([]uintptr, 4096)))
		for seen := deepest.Load(); depth > seen && !deepest.CompareAndSwap(seen, depth); seen = deepest.Load() {
		}
		batch, err := natskit.Message[checkpb.CheckBatch](r)
		if err != nil {
			t.Errorf("batch: %v", err)
		}
		_ = r.Respond(refuse(batch))
	})
	c := newChecker(natstest.StartBare(t).Service(), patience, time.Now)
	c.Prefer(near)
	var all sync.WaitGroup
	check := func(i int) {
		all.Go(func() {
			if _, _, err := c.Check(t.Context(), checkOf(fmt.Sprint(i))); !errors.Is(err, ErrDetector) {
				t.Errorf("check %d: %v", i, err)
			}
		})
	}
	for i := range maxSent {
		check(i)
		<-held
	}
	for i := range waiting {
		check(maxSent + i)
	}
	await(t, c, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lane("").waiting.Len() == waiting
	})
	close(release)
	all.Wait()
	if n := deepest.Load(); n > 60 {
		t.Errorf("%d calls deep", n)
	}
}

// A check that waits for its turn ends when its client leaves.
func TestClientThatLeavesDoesNotWait(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	asked, release := make(chan struct{}, maxSent), make(chan struct{})
	nc := s.Conn()
	if _, err := nc.Subscribe(schemas.SubjectCheck, func(m *nats.Msg) {
		asked <- struct{}{}
		go func() { <-release; _ = m.Respond(nil) }()
	}); err != nil {
		t.Fatal(err)
	}
	c := newChecker(s.Service(), patience, time.Now)
	var others sync.WaitGroup
	await(t, c, func() bool { return nc.NumSubscriptions() == 1 && nc.Flush() == nil })
	for i := range maxSent {
		others.Go(func() { _, _, _ = c.Check(context.Background(), checkOf(fmt.Sprint(i))) })
		<-asked
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := c.Check(ctx, checkOf("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	close(release)
	others.Wait()
}

func TestStandingBlockIsAnsweredFromMemoryUntilItEnds(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	var asked atomic.Int64
	blocked := each(t, blocking)
	detector(t, s, func(b *checkpb.CheckBatch) []byte { asked.Add(1); return blocked(b) })
	var now clock
	c := newChecker(s.Service(), patience, now.now)
	ask := func() (*checkpb.Decision, bool) {
		d, local, err := c.Check(t.Context(), checkOf("x"))
		if err != nil {
			t.Fatal(err)
		}
		return d, local
	}
	ask()
	now.advance(4 * time.Second)
	for i := range 3 {
		d, local := ask()
		if f := d.GetFindings()[0]; !local || f.GetHitCount() != uint32(7+i) || f.GetBlockedMs() != 6000 || f.GetLoopId() != "loop" {
			t.Fatalf("hit %d during the block: local %v, %v", i+1, local, f)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the detector was asked %d times, want once", asked.Load())
	}
	now.advance(7 * time.Second)
	if _, local := ask(); local {
		t.Error("answered from memory after the block's end")
	}
}

func TestHitsOnABlockAreReported(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	reports := make(chan *checkpb.CheckBatch, 8)
	detector(t, s, func(b *checkpb.CheckBatch) []byte { reports <- b; return nil })
	var now clock // stands still
	c := newChecker(s.Service(), patience, now.now)
	c.blocks.Confirm(now.now(), nil, &checkpb.Decision{Findings: []*checkpb.Finding{blockFinding("x")}})
	check := checkOf("x")
	check.Hit = "ofblocked" // a repetition has the check of the request that was blocked first
	check.Counters = append(check.Counters, &checkpb.Counter{Policy: "other", Detector: "request", Fingerprint: []byte("y")})
	for range 40 {
		if _, local, err := c.Check(t.Context(), check); !local || err != nil {
			t.Fatalf("local %v, %v", local, err)
		}
	}
	peek := proto.CloneOf(check)
	peek.Peek = true
	if _, local, err := c.Check(t.Context(), peek); !local || err != nil {
		t.Fatalf("peek: local %v, %v", local, err)
	}
	c.report()
	got := <-reports
	if len(got.GetChecks()) != 1 || got.GetChecks()[0].GetHits() != 40 || len(got.GetChecks()[0].GetCounters()) != 2 {
		t.Errorf("reported %v; want 40 hits for both counters", got)
	}
	if id := got.GetChecks()[0].GetHit(); id == "" || id == check.GetHit() {
		t.Errorf("reported as hit %q, which detectors may have counted", id)
	}
	c.report()
	if len(reports) != 0 {
		t.Error("the same hits were reported twice")
	}
}

func TestBlocksComeFromOtherGatewaysAndGoWithARelease(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	c := newChecker(s.Service(), patience, time.Now)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Follow(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("follow: %v", err)
		}
	})

	nc := s.Conn()
	publish := func(subject string, m proto.Message) {
		body, err := proto.Marshal(m)
		if err == nil {
			err = nc.Publish(subject, body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shadow, soft := blockFinding("shadow"), blockFinding("soft")
	shadow.Shadow = true
	soft.Action = checkpb.Action_ACTION_THROTTLE
	await(t, c, func() bool { // it may not listen yet
		publish(schemas.SubjectCooldown, &checkpb.Cooldown{})
		publish(schemas.SubjectCooldown, &checkpb.Cooldown{Finding: shadow})
		publish(schemas.SubjectCooldown, &checkpb.Cooldown{Finding: soft})
		publish(schemas.SubjectCooldown, &checkpb.Cooldown{Finding: blockFinding("x")})
		return c.blocks.Len() == 1
	})
	if err := nc.Publish(schemas.SubjectCooldown, []byte("\xff")); err != nil {
		t.Fatal(err)
	}
	publish(schemas.SubjectForget, &checkpb.Forget{})
	if err := nc.Publish(schemas.SubjectForget, []byte("\xff")); err != nil {
		t.Fatal(err)
	}
	if d := c.blocks.Decision(time.Now(), checkOf("x")); d == nil {
		t.Error("messages without meaning ended a block")
	}
	publish(schemas.SubjectForget, &checkpb.Forget{Counters: []*checkpb.CounterRef{{Policy: "p", Detector: "prompt", Fingerprint: []byte("x")}}})
	await(t, c, func() bool { return c.blocks.Len() == 0 })
}

// await returns once a condition holds.
func await(t *testing.T, c *Checker, wanted func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if wanted() {
			return
		}
		_ = c.nc.NATS().Flush() // a round trip, in which what was published arrives
	}
	t.Fatal("the condition did not come about")
}

// A decision that was under way while its loop was released may be older than
// the release, and must not bring the block back.
func TestDecisionOlderThanAReleaseIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	asked, release := make(chan struct{}), make(chan struct{})
	blocked := each(t, blocking)
	detector(t, s, func(b *checkpb.CheckBatch) []byte { close(asked); <-release; return blocked(b) })
	c := newChecker(s.Service(), patience, time.Now)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, _, err := c.Check(t.Context(), checkOf("x")); err != nil {
			t.Errorf("check: %v", err)
		}
	}()
	<-asked
	c.blocks.Forget(&checkpb.CounterRef{Policy: "p", Detector: "prompt", Fingerprint: []byte("x")})
	close(release)
	<-done
	if c.blocks.Len() != 0 {
		t.Error("the block is back")
	}
}

// Names are the client's: a model of a megabyte is checked like any other, tells
// other models apart, and harms no check beside it.
func TestLongNamesAreCheckedAndHarmNoNeighbours(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	var models sync.Map
	detector(t, s, func(b *checkpb.CheckBatch) []byte {
		out := &checkpb.DecisionBatch{}
		for _, check := range b.GetChecks() {
			models.Store(check.GetRequestId(), check)
			out.Decisions = append(out.Decisions, &checkpb.Decision{})
		}
		body, err := proto.Marshal(out)
		if err != nil {
			t.Error(err)
		}
		return body
	})
	c := newChecker(s.Service(), patience, time.Now)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			check := checkOf(fmt.Sprint(i))
			if i%2 == 0 {
				name := strings.Repeat("m", 2<<20) + fmt.Sprint(i)
				check.Model = name
				check.Watches = []*checkpb.ToolWatch{{History: &checkpb.History{Items: []*checkpb.HistoryItem{{Calls: []*checkpb.ToolCall{{Tool: name}}}}}}}
			}
			if _, _, err := c.Check(t.Context(), check); err != nil {
				t.Errorf("check %d: %v", i, err)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	models.Range(func(_, value any) bool {
		check := value.(*checkpb.Check)
		if len(check.GetModel()) > maxName || seen[check.GetModel()] && check.GetModel() != "" {
			t.Errorf("a model of %d bytes, seen before: %v", len(check.GetModel()), seen[check.GetModel()])
		}
		seen[check.GetModel()] = true
		return true
	})
	if len(seen) != 33 {
		t.Errorf("%d models, want 32 and none", len(seen))
	}
}

// What else stops a blocked request is asked of a detector; if there is none, the block
// stands.
func TestABlockStandsWithoutADetector(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	c := newChecker(s.Service(), patience, time.Now)
	c.blocks.Learn(time.Now(), blockFinding("x"))
	check := checkOf("x")
	check.Watches = append(check.Watches, &checkpb.ToolWatch{})
	if d, local, err := c.Check(t.Context(), check); !d.GetAction().Stops() || !local || err != nil {
		t.Errorf("%v, local %v, %v", d, local, err)
	}
	if d, _, err := c.Check(t.Context(), checkOf("y")); d != nil || !errors.Is(err, ErrNoDetector) {
		t.Errorf("another request: %v, %v", d, err)
	}
}
