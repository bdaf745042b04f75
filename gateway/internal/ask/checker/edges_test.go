package checker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestOutcomesAndCorrectionsArePublished(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	nc := s.Conn()
	published, err := nc.SubscribeSync(schemas.SubjectOutcome)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := newChecker(s.Service(), patience, time.Now)
	corrections := []*checkpb.Correction{{Limit: &checkpb.Limit{Policy: "p"}, Delta: -3}}
	aborted := checkpb.OutcomeOf(checkOf("x"))
	aborted.Aborted = true
	for name, step := range map[string]struct {
		publish func()
		want    *checkpb.Outcome
	}{
		"a correction":           {func() { c.Correct("caller", corrections) }, &checkpb.Outcome{Corrections: corrections}},
		"an outcome":             {func() { c.Outcome(checkOf("x"), false) }, checkpb.OutcomeOf(checkOf("x"))},
		"a client that has left": {func() { c.Outcome(checkOf("x"), true) }, aborted},
	} {
		step.publish()
		msg, err := published.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		var got checkpb.Outcome
		if err := proto.Unmarshal(msg.Data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, &got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if err := c.publish(schemas.SubjectOutcome, &checkpb.Outcome{Corrections: []*checkpb.Correction{{RequestId: "\xff"}}}); err == nil {
		t.Error("a message that can't be encoded was published")
	}
}

func TestChecksThatCannotBeSent(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	detector(t, s, each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} }))
	c := newChecker(s.Service(), patience, time.Now)
	long := checkOf("x")
	long.Counters[0].Fingerprint = make([]byte, 2*maxMessage)
	for name, check := range map[string]*checkpb.Check{"too long": long, "no valid text": checkOf("\xff")} {
		for range 2 * maxSent { // none may keep the place of a message
			if _, _, err := c.Check(t.Context(), check); !errors.Is(err, ErrDetector) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, _, err := c.Check(t.Context(), checkOf("x")); err != nil {
		t.Errorf("a check behind them: %v", err)
	}
}

func TestChecksBeyondTheQueueAreRefused(t *testing.T) {
	t.Parallel()
	c := newChecker(natstest.StartBare(t).Service(), patience, time.Now)
	l := c.lane("")
	l.sent = maxSent
	for range maxWaiting / 2 {
		l.waiting.Push(0, &call{ctx: t.Context(), at: time.Now(), done: make(chan answer, 1)})
	}
	if _, _, err := c.Check(t.Context(), checkOf("x")); !errors.Is(err, ErrOverloaded) {
		t.Errorf("of a caller that has half of the queue: error %v", err)
	}
	if _, _, err := c.enqueue(&call{ctx: fair.WithCaller(t.Context(), 1), check: checkOf("x"), at: time.Now(), done: make(chan answer, 1)}, ""); err != nil {
		t.Errorf("of another caller: %v", err)
	}
}

// One caller's flood delays the checks of others by no more than one batch.
func TestCallersShareTheDetectorsInTurn(t *testing.T) {
	t.Parallel()
	c := newChecker(natstest.StartBare(t).Service(), patience, time.Now)
	c.lane("").sent = maxSent
	enqueue := func(caller fair.Caller) {
		own := &call{ctx: fair.WithCaller(t.Context(), caller), check: checkOf("x"), at: time.Now(), done: make(chan answer, 1)}
		if _, _, err := c.enqueue(own, ""); err != nil {
			t.Fatal(err)
		}
	}
	const flood, honest = 1, 2
	for range 1000 {
		enqueue(flood)
	}
	enqueue(honest)
	enqueue(honest)
	var of []fair.Caller
	for _, one := range c.take(c.lane(""), 0)[:4] {
		of = append(of, fair.CallerIn(one.ctx))
	}
	if want := []fair.Caller{flood, honest, flood, honest}; !slices.Equal(of, want) {
		t.Errorf("served %v, want %v", of, want)
	}
}

func TestABatchIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	stalled := each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{Error: checkpb.ErrorStalled} })
	var asked atomic.Int64
	named(t, s, "stalled", func(b *checkpb.CheckBatch) []byte { asked.Add(1); return stalled(b) })
	detector(t, s, func(b *checkpb.CheckBatch) []byte { asked.Add(1); return stalled(b) })
	reg := prometheus.NewRegistry()
	c := New(s.Service(), patience, time.Now, reg)
	c.fleet.HearAt("stalled", time.Now().Add(patience))
	if _, _, err := c.Check(t.Context(), checkOf("x")); !errors.Is(err, ErrDetector) || asked.Load() != maxTries {
		t.Errorf("%v after %d tries", err, asked.Load())
	}
	if got := testutil.ToFloat64(c.again); got != maxTries-1 {
		t.Errorf("%v tries are counted as repeated", got)
	}
	c.Blocks().Learn(time.Now(), blockFinding("x"))
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP unloop_gateway_standing_blocks Standing blocks, whose requests are answered without a check.
# TYPE unloop_gateway_standing_blocks gauge
unloop_gateway_standing_blocks 1
`), "unloop_gateway_standing_blocks"); err != nil {
		t.Error(err)
	}
}

func TestABatchIsTriedWhileThereIsTime(t *testing.T) {
	t.Parallel()
	c := newChecker(natstest.StartBare(t).Service(), time.Second, time.Now)
	a := &attempt{c: c, until: time.Now().Add(-time.Second)}
	if a.again() {
		t.Error("tried again after the end of the time")
	}
}

func TestLongNamesOfCallsAreShortened(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxName)
	check := &checkpb.Check{Model: long, Watches: []*checkpb.ToolWatch{
		{Run: &checkpb.ToolRun{Call: &checkpb.ToolCall{Tool: long}}}, {Run: &checkpb.ToolRun{}},
		{History: &checkpb.History{Items: []*checkpb.HistoryItem{{Calls: []*checkpb.ToolCall{{Tool: long}, {Tool: "short"}}}}}},
	}}
	bound(check)
	calls := check.GetWatches()[2].GetHistory().GetItems()[0].GetCalls()
	for name, got := range map[string]string{"the model": check.GetModel(), "a run": check.GetWatches()[0].GetRun().GetCall().GetTool(), "a history": calls[0].GetTool()} {
		if len(got) != maxName {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
	if calls[1].GetTool() != "short" {
		t.Errorf("a short name became %q", calls[1].GetTool())
	}
}

// A release may have been missed while there was no connection, so detectors are asked
// about each block again. Until one answers, the blocks stand.
func TestBlocksStandUntilADetectorAnswersAfterAReconnect(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	c := unstarved(s.Service(), 50*time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Follow(ctx) }()
	await(t, c, func() bool {
		c.blocks.Learn(time.Now(), blockFinding("released"), blockFinding("standing"))
		return c.nc.NATS().NumSubscriptions() > 2 && c.blocks.Len() == 2
	})
	releases := c.blocks.Releases()
	if err := c.nc.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	await(t, c, func() bool { return c.blocks.Releases() > releases })
	is := func(when, id string, stops, local bool) {
		t.Helper()
		d, fromMemory, err := c.Check(t.Context(), checkOf(id))
		if err != nil || d.GetAction().Stops() != stops || fromMemory != local {
			t.Errorf("%s, %s: %v, from memory %t, %v", when, id, d, fromMemory, err)
		}
	}
	is("without a detector", "released", true, true)
	var counts atomic.Bool // whether the leader of the counters is there
	detector(t, s, each(t, func(check *checkpb.Check) *checkpb.Decision {
		switch {
		case !counts.Load():
			return &checkpb.Decision{Error: "not counted"}
		case check.GetRequestId() == "standing":
			return blocking(check)
		}
		return &checkpb.Decision{}
	}))
	await(t, c, func() bool {
		_, err := s.Conn().Request(schemas.SubjectCheck, nil, patience)
		return err == nil
	})
	is("without a leader", "released", true, true)
	counts.Store(true)
	c.timeout = patience
	is("asked", "released", false, false)
	is("asked", "standing", true, false)
	is("afterwards", "standing", true, true)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHitsAreKeptNowhereWithoutAConnection(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Service()
	c := newChecker(nc, patience, time.Now)
	for i := range 2 * maxBatch {
		id := fmt.Sprint(i)
		c.blocks.Learn(time.Now(), blockFinding(id))
		c.blocks.Decision(time.Now(), checkOf(id))
	}
	nc.Close()
	c.report() // it neither waits nor fails
	if reports := c.blocks.TakeReports(time.Now()); len(reports) > 0 {
		t.Errorf("%d reports are left", len(reports))
	}
	if err := c.Follow(t.Context()); err == nil {
		t.Error("a checker follows nothing, and nobody says so")
	}
}
