package detector_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/storepb"
)

// load asks about checks at an even rate, and returns how many were not counted in
// time.
func load(t testing.TB, nc *nats.Conn, rate, n int, check func(i int) *checkpb.Check) (lost int) {
	t.Helper()
	var asking sync.WaitGroup
	var uncounted atomic.Int64
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		asking.Go(func() {
			if !counts(nc, check(i)) {
				uncounted.Add(1)
			}
		})
	}
	asking.Wait()
	return int(uncounted.Load())
}

// counts asks as a gateway that has patience does, and says whether the check was counted.
func counts(nc *nats.Conn, check *checkpb.Check) bool {
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{check}, BudgetMs: uint32(patience.Milliseconds())})
	if err != nil {
		return false
	}
	for {
		msg, err := nc.Request(schemas.SubjectCheck, body, patience)
		if err != nil {
			return false
		}
		var batch checkpb.DecisionBatch
		if proto.Unmarshal(msg.Data, &batch) != nil || len(batch.GetDecisions()) != 1 {
			return false
		}
		if fault := batch.GetDecisions()[0].GetError(); fault != checkpb.ErrorStalled { // a machine under load looks like a stall
			return fault == ""
		}
	}
}

// A detector that is farther from the server than another counts what it is asked
// on a key that all use, and does not lose its writes to the other one.
//
//nolint:tparallel // loads at the same time would measure one another
func TestADistantDetectorCountsOnAHotKey(t *testing.T) {
	t.Parallel()
	counter := func(int) *checkpb.Check { return patient(promptCheck("hot"), 10_000) }
	bucket := func(int) *checkpb.Check { return limited(func(l *checkpb.Limit) { l.Bucket.Capacity = 1e6 }) }
	session := func(i int) *checkpb.Check { return toolCheck(round(i, "read", fmt.Sprint(i))) }
	for _, c := range []struct {
		name  string
		rate  int
		check func(int) *checkpb.Check
	}{
		{"counter", 200, counter}, {"counter", 500, counter}, {"limit", 500, bucket}, {"session", 500, session},
	} {
		t.Run(fmt.Sprint(c.name, " ", c.rate), func(t *testing.T) {
			s := natstest.Start(t)
			near, distant := startDetector(t, s), startDetectorAt(t, s, s.Distant(2*time.Millisecond))
			n := int(loadFor(t).Seconds() * float64(c.rate))
			lost := load(t, s.Conn(), c.rate, n, c.check)
			// After the first conflicts one of them writes for both. Two that both write have
			// one for every third check or so, and the distant one loses most of them.
			conflicts := near.conflicts(t) + distant.conflicts(t)
			if lost > n/50 || int(conflicts) > n/10 {
				t.Errorf("%d of %d were not counted, and %g writes were refused", lost, n, conflicts)
			}
		})
	}
}

// conflicts returns how many writes of a detector were refused since another one wrote first.
func (p process) conflicts(t *testing.T) float64 {
	return p.counted(t, "unloop_ledger_conflicts_total")
}

// counted returns a counter of a detector, summed over its labels.
func (p process) counted(t *testing.T, name string) (n float64) {
	t.Helper()
	families, err := p.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// loadFor is how long loads last: a second, or what UNLOOP_TEST_LOAD says.
func loadFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("UNLOOP_TEST_LOAD")
	if text == "" {
		return time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("UNLOOP_TEST_LOAD is %q; set it to a duration such as 10s", text)
	}
	return d
}

// What two detectors correct on one key is all booked.
func TestCorrectionsOnAHotKeyAreAllBooked(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	startDetectorAt(t, s, s.Distant(2*time.Millisecond))
	spend := limited(func(l *checkpb.Limit) {
		l.Bucket, l.Cost, l.Estimated = nil, 5, true
		l.Budget = &checkpb.Budget{Amount: 1e9, PeriodSeconds: 86400, Stages: []*checkpb.Stage{{Percent: 100, Action: checkpb.Action_ACTION_REJECT}}}
	})
	correction, err := proto.Marshal(&checkpb.Outcome{Corrections: []*checkpb.Correction{{Limit: spend.GetLimits()[0], Delta: -2}}})
	if err != nil {
		t.Fatal(err)
	}
	nc := s.Conn()
	const n = 200
	watch := watchKey(t, s, schemas.BucketBudgets)
	// What is corrected was taken: a correction may overtake the request that follows it, and
	// gives back no more than was spent.
	const taken = 1000
	first := proto.CloneOf(spend)
	first.Limits[0].Cost = taken
	ruling(t, nc, first)
	lost := load(t, nc, 400, n, func(int) *checkpb.Check {
		if err := nc.Publish(schemas.SubjectOutcome, correction); err != nil {
			t.Error(err)
		}
		return spend
	})
	// What had no answer on a starved machine may have been counted.
	least, most := taken+(n-lost)*5-n*2, taken+n*5-n*2
	watch(func(value []byte) bool {
		var state storepb.Limit
		err := proto.Unmarshal(value, &state)
		spent := int(state.GetSpent())
		return err == nil && least <= spent && spent <= most && (spent-least)%5 == 0
	})
}

// The detector that a key belongs to is gone without a word: the others count.
func TestAKeyWhoseDetectorIsGoneIsCounted(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	near := startDetector(t, s)
	startDetectorAt(t, s, s.Distant(2*time.Millisecond))
	nc := s.Conn()
	hot := func(int) *checkpb.Check { return patient(promptCheck("hot"), 10_000) }
	load(t, nc, 400, 200, hot)
	near.nc.Close()
	if lost := load(t, nc, 200, 100, hot); lost > 2 {
		t.Errorf("%d of 100 were not counted", lost)
	}
}

// Two and eight detectors at unequal distances, whose clocks disagree, count each hit.
func TestUnequalDetectorsCountTogether(t *testing.T) {
	t.Parallel()
	for name, clocks := range map[string][]time.Duration{
		"two":   {65 * time.Second, 0},
		"eight": {5 * time.Minute, 0, -20 * time.Second, 65 * time.Second, -2 * time.Hour, 125 * time.Second, 10 * time.Second, 61 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			nc := s.Conn()
			hot := func(int) *checkpb.Check { return patient(steady("hot"), 10_000) }
			for i, off := range clocks {
				clock := detector.WithLocalClock(func() time.Time { return time.Now().Add(off) })
				startDetectorAt(t, s, s.Distant(time.Duration(i)*time.Millisecond), clock)
			}
			const n = 300
			lost := load(t, nc, 150, n, hot)
			d := ask(t, nc, hot(n))[0]
			for d.GetError() != "" { // a machine under load
				d = ask(t, nc, hot(n))[0]
			}
			count := d.GetHitCounts()[0]
			t.Logf("%d of %d were not counted; the count is %d", lost, n, count)
			if lost > n/5 || int(count) < n-lost+1 {
				t.Errorf("%d of %d were not counted; the count is %d", lost, n, count)
			}
		})
	}
}
