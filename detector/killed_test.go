package detector_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// router asks the detector of a caller, and the next one if that is gone, as gateways do.
type router struct {
	nc    *nats.Conn
	fleet *fleet.Fleet
}

func newRouter(nc *nats.Conn, names []string) *router {
	r := &router{nc, fleet.New(time.Now)}
	for _, name := range names {
		r.fleet.HearAt(name, time.Now().Add(time.Hour))
	}
	return r
}

// ask returns the decision, and whether more than one detector was asked.
func (r *router) ask(t *testing.T, check *checkpb.Check) (d *checkpb.Decision, again bool) {
	t.Helper()
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{check}, BudgetMs: uint32(patience.Milliseconds())})
	if err != nil {
		t.Fatal(err)
	}
	for {
		name := r.fleet.Choose(fleet.Hash(check.GetIdentity().GetCaller())).First
		var batch checkpb.DecisionBatch
		// A killed detector's connection ends without an answer to what it was sent.
		m, err := r.nc.Request(schemas.DetectorSubject(name), body, 2*time.Second)
		if err == nil {
			err = proto.Unmarshal(m.Data, &batch)
		}
		switch {
		case name == "":
			t.Error("no detector is left")
			return nil, again
		case err != nil:
			r.fleet.Gone(name)
			again = true
		case batch.GetDecisions()[0].GetError() == checkpb.ErrorStalled: // a machine under load looks like a stall
		default:
			return batch.GetDecisions()[0], again
		}
	}
}

// looping is the check of an agent's request number n, all of which make the same call.
func looping(agent string, n int) *checkpb.Check {
	check := toolCheck(rounds(n, func(int) string { return "same" })...)
	id := sha256.Sum256([]byte(agent))
	check.Watches[0].Agent, check.Identity = id[:], &checkpb.Identity{Caller: agent, Session: agent}
	check.Counters = patient(promptCheck(agent), 10_000).GetCounters()
	check.Hit, check.Home = fmt.Sprintf("%-7s%d", agent, n), true
	return check
}

// What a request only shows may be lost, since the next one shows it again. What it was told
// is not: the loop gets its hint once, and its block with the same request.
func TestLostStepsOfASessionCostNoHintAndNoBlock(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	p := startDetector(t, s)
	nc := s.Conn()
	r := newRouter(nc, detectorNames(t, nc, 1))
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketSessions)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5} { // a hint that stands is not given again
		show := func(agent string) *checkpb.Decision {
			check := looping(agent, n)
			check.Hit = fmt.Sprintf("%-7s%d", agent, i)
			d, _ := r.ask(t, check)
			return d
		}
		calm, robbed := show("calm"), show("robbed")
		if calm.GetAction() != robbed.GetAction() || !slices.Equal(calm.GetHitCounts(), robbed.GetHitCounts()) {
			t.Errorf("request %d: %s with all steps, %s without those that were lost", i+1, calm.GetAction(), robbed.GetAction())
		}
		// The next write of the detector fails, as if it had died before.
		key := "$KV." + schemas.BucketSessions + "." + schemas.SessionKey(false, "default", looping("robbed", 1).GetWatches()[0].GetAgent())
		msg, err := stream.GetLastMsgForSubject(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JetStream().Publish(t.Context(), key, msg.Data); err != nil {
			t.Fatal(err)
		}
	}
	if lost := p.counted(t, "unloop_ledger_behind_lost_total"); lost == 0 {
		t.Error("no step was lost")
	}
}

// Detectors that are killed under load lose the last milliseconds of what agents did, which
// the next requests show again: each loop gets its hint once, and its block with the same
// request as if none had been killed, and each request counts once.
func TestKilledDetectorsLoseNoHintNoBlockAndNoCount(t *testing.T) {
	t.Parallel()
	const agents, requests, detectors = 60, 7, 4
	s := natstest.Start(t)
	var victims []process
	for i := range detectors {
		// Writes of those that are killed are under way when their answers are there.
		victims = append(victims, startDetectorAt(t, s, s.Distant(time.Duration(i)*time.Millisecond)))
	}
	nc := s.Conn()
	r := newRouter(nc, detectorNames(t, nc, detectors))
	var want []string
	for n := range requests {
		d, _ := r.ask(t, looping("calm", n+1))
		want = append(want, d.GetAction().Label())
	}
	if !slices.Contains(want, "hint") || !slices.Contains(want, "reject") {
		t.Fatalf("without a kill the actions are %v", want)
	}
	var asked, moved atomic.Int64
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			agent := fmt.Sprint("a", i)
			for n := range requests {
				if at := asked.Add(1); at == agents*requests/4 || at == agents*requests/2 {
					victims[1+int(at*4/agents/requests)].nc.Close() // as its death would look to everyone else
				}
				d, again := r.ask(t, looping(agent, n+1))
				if again {
					moved.Add(1)
				}
				// A decision whose answer was lost is not given again.
				if got := d.GetAction().Label(); got != want[n] && (!again || got == "hint" || want[n] == "reject") {
					t.Errorf("%s, request %d: %s, want %s (asked again: %t)", agent, n+1, got, want[n], again)
				}
				if count := d.GetHitCounts(); len(count) == 0 || count[0] != uint32(n+1) {
					t.Errorf("%s, request %d: the counts are %v", agent, n+1, count)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d requests were asked again", moved.Load())
}
