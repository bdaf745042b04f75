package detector_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/openloop"
)

// Whatever the interleaving, however requests are batched, and whichever
// detector gets them: exactly as many pass as the policy allows.
func TestExactlyMaxHitsPassThreeDetectors(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	for range 3 {
		startDetector(t, s)
	}
	var run atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(rt, "max hits")
		requests := rapid.IntRange(1, 200).Draw(rt, "requests")
		batch := rapid.IntRange(1, 20).Draw(rt, "batch")
		check := promptCheck(fmt.Sprint("interleaved ", run.Add(1)))
		check.Counters[0].Threshold = uint32(limit)
		check.Counters[0].Steps[0].At = uint32(limit + 1)
		got := storm(t, s, check, requests, batch)
		// A starved machine leaves some without an answer, which may have been counted.
		if want := min(limit, requests); got.allowed > want || got.allowed+got.unknown < want {
			rt.Fatalf("%d of %d requests passed and %d had no answer, want %d and 0", got.allowed, requests, got.unknown, want)
		}
	})
}

// tally is what became of many requests.
type tally struct{ allowed, rejected, unknown int }

// storm sends a check many times at once, over two connections.
func storm(t testing.TB, s *natstest.Server, check *checkpb.Check, requests, batch int) tally {
	t.Helper()
	a, b := s.Conn(), s.Conn()
	var mu sync.Mutex
	var sum tally
	var wg sync.WaitGroup
	for i := 0; i < requests; i += batch {
		n := min(batch, requests-i)
		nc := a
		if (i/batch)%2 == 1 {
			nc = b
		}
		wg.Go(func() {
			checks := make([]*checkpb.Check, n)
			for j := range checks {
				checks[j] = check
			}
			decisions, err := tryAsk(nc, patience, checks...)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				sum.unknown += n
				return
			}
			for _, d := range decisions {
				switch {
				case d.GetError() != "":
					sum.unknown++
				case d.GetAction() == checkpb.Action_ACTION_ALLOW:
					sum.allowed++
				default:
					sum.rejected++
				}
			}
		})
	}
	wg.Wait()
	a.Close()
	b.Close()
	return sum
}

func TestOneIncidentHoweverManyHitsAndDetectors(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	for range 3 {
		startDetector(t, s)
	}
	storm(t, s, promptCheck("p"), 200, 1)
	// A second loop's event comes after every one of the first's.
	storm(t, s, promptCheckIn("another session", "q"), 50, 1)
	consumer, err := s.JetStream().OrderedConsumer(t.Context(), schemas.StreamEvents, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"loop.detected.>"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for len(seen) < 2 {
		msg, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatalf("events of two loops expected, have %v: %v", seen, err)
		}
		e, err := event.Parse(msg.Data())
		if err != nil {
			t.Fatal(err)
		}
		if msg.Subject() != "loop.detected.acme.default" || e.Type != event.Detected {
			t.Errorf("%s on %s", e.Type, msg.Subject())
		}
		seen[e.Data.LoopID]++
	}
	stream, err := s.JetStream().Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("loop.detected.>"))
	if err != nil {
		t.Fatal(err)
	}
	if n := info.State.Subjects["loop.detected.acme.default"]; n != 2 {
		t.Errorf("%d beginnings of two loops", n)
	}
}

func promptCheckIn(session, prompt string) *checkpb.Check {
	check := promptCheck(prompt)
	check.Identity.Session = session
	return check
}

// A detector that dies takes with it only the answers that it owed: no hit
// counts twice, and no more pass than the policy allows.
func TestKilledDetectorCostsOnlyItsOwnAnswers(t *testing.T) {
	t.Parallel()
	const requests = 200
	s := natstest.Start(t)
	victim := startDetector(t, s)
	startDetector(t, s)
	startDetector(t, s)
	hit := func(id int) *checkpb.Check {
		check := steady("p")
		check.Hit = fmt.Sprintf("%08d", id)
		return check
	}
	killed := make(chan struct{})
	var sum tally
	var wg sync.WaitGroup
	var mu sync.Mutex
	var answered atomic.Int64
	nc := s.Conn()
	for i := range requests {
		wg.Go(func() {
			decisions, err := tryAsk(nc, 2*time.Second, hit(i))
			if answered.Add(1) == requests/4 {
				victim.nc.Close() // as its death would look to everyone else
				close(killed)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || decisions[0].GetError() != "":
				sum.unknown++
			case decisions[0].GetAction() == checkpb.Action_ACTION_ALLOW:
				sum.allowed++
			default:
				sum.rejected++
			}
		})
	}
	wg.Wait()
	<-killed
	if sum.allowed > 5 || sum.allowed+sum.unknown < 5 {
		t.Errorf("%d passed, %d had no answer; at most 5 may pass", sum.allowed, sum.unknown)
	}
	// As long as the server has not seen the end of its connection, the dead detector
	// is sent checks and handed keys, which cost their time-out.
	lost := 0
	decisions, err := tryAsk(nc, 2*time.Second, hit(requests))
	for err != nil || decisions[0].GetError() != "" {
		if lost++; lost > 10 {
			t.Fatalf("after %d checks without an answer: %v, %v", lost, err, decisions)
		}
		decisions, err = tryAsk(nc, 2*time.Second, hit(requests+lost))
	}
	counted := int(decisions[0].GetHitCounts()[0]) - 1
	if least := sum.allowed + sum.rejected; counted < least || counted > requests+lost {
		t.Errorf("%d hits are counted; %d were answered, %d were sent, and %d afterwards", counted, least, requests, lost)
	}
}

// A check that two detectors get, since the gateway sent it again when the first was killed,
// counts once. Callers that send as many requests as a policy allows are never stopped.
func TestACheckThatIsSentToTwoDetectorsCountsOnce(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s)
	nc := s.Conn()
	names := detectorNames(t, nc, 2)
	for caller := range 100 {
		for i := range 5 {
			check := promptCheck(fmt.Sprint("caller ", caller))
			check.Hit = fmt.Sprintf("%04d%04d", caller, i)
			for _, name := range names {
				d := askAt(t, nc, name, check)
				if d.GetAction() != checkpb.Action_ACTION_ALLOW || d.GetHitCounts()[0] != uint32(i+1) {
					t.Fatalf("caller %d, request %d: %v", caller, i+1, d)
				}
			}
		}
	}
}

// A whole batch of hits on one key that a second detector gets, since the first was killed
// in the middle of it, counts once.
func TestABatchOfHitsOnOneKeyThatIsSentAgainCountsOnce(t *testing.T) {
	t.Parallel()
	const hits = 200
	s := natstest.Start(t)
	startDetector(t, s)
	startDetector(t, s)
	nc := s.Conn()
	names := detectorNames(t, nc, 2)
	checks := make([]*checkpb.Check, hits)
	for i := range checks {
		checks[i] = promptCheck("hot")
		checks[i].Hit = fmt.Sprintf("%08d", i)
	}
	askAt(t, nc, names[0], checks[:hits/2]...)
	askAt(t, nc, names[1], checks...)
	last := promptCheck("hot")
	last.Hit = "the last"
	if n := askAt(t, nc, names[0], last).GetHitCounts()[0]; n != hits+1 {
		t.Errorf("%d hits are counted, want %d", n, hits+1)
	}
}

// askAt asks one detector by its name, as gateways do, and returns its first decision.
func askAt(t testing.TB, nc *nats.Conn, name string, checks ...*checkpb.Check) *checkpb.Decision {
	t.Helper()
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: checks, BudgetMs: uint32(patience.Milliseconds())})
	if err != nil {
		t.Fatal(err)
	}
	for {
		var batch checkpb.DecisionBatch
		m, err := nc.Request(schemas.DetectorSubject(name), body, patience)
		if err == nil {
			err = proto.Unmarshal(m.Data, &batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		if d := batch.GetDecisions()[0]; d.GetError() != checkpb.ErrorStalled { // a machine under load looks like a stall
			return d
		}
	}
}

// A detector that stops under load answers what the server has sent to it.
func TestStoppedDetectorAnswersWhatItWasSent(t *testing.T) {
	t.Parallel()
	const atOnce = 64
	s := natstest.Start(t)
	leaving := startDetector(t, s)
	nc := s.Conn()
	answers := make(chan *nats.Msg, 2*atOnce)
	inbox := nc.NewInbox()
	if _, err := nc.ChanSubscribe(inbox, answers); err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{promptCheck("p")}, BudgetMs: uint32(patience.Milliseconds())})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		if err := nc.PublishRequest(schemas.SubjectCheck, inbox, body); err != nil {
			t.Error(err)
		}
	}
	for range atOnce {
		ask()
	}
	left := make(chan struct{})
	underway, leave := atOnce, sync.OnceFunc(func() {
		go func() {
			defer close(left)
			leaving.stop()
			if err := leaving.nc.NATS().Flush(); err != nil {
				t.Error(err)
			}
			leaving.nc.Close() // as its process does
		}()
	})
	for underway > 0 {
		select {
		case m := <-answers:
			leave()
			underway--
			if m.Header.Get("Status") == "503" { // sent when it had gone
				continue
			}
			var batch checkpb.DecisionBatch
			if err := proto.Unmarshal(m.Data, &batch); err != nil || refusedToLeave(batch.GetDecisions()[0].GetError()) {
				t.Fatalf("refused: %v, %v", &batch, err)
			}
			ask() // until it is gone, there are as many under way
			underway++
		case <-time.After(patience):
			t.Fatal("a request that the detector was sent has no answer")
		}
	}
	<-left
}

// refusedToLeave reports whether a check was refused. A detector that had no processor for
// a while refuses what came meanwhile, which has nothing to do with its end.
func refusedToLeave(fault string) bool { return fault != "" && fault != checkpb.ErrorStalled }

// storedIncidents reads the open incidents from their bucket. The stream names all of them
// at one moment: a watch may miss one that is being written.
func storedIncidents(t testing.TB, s *natstest.Server) []openloop.Record {
	t.Helper()
	stream, err := s.JetStream().Stream(t.Context(), "KV_"+schemas.BucketIncidents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	var all []openloop.Record
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		msg, err := stream.GetLastMsgForSubject(t.Context(), subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(msg.Data) == 0 { // it is over, or a timer
			continue
		}
		var in openloop.Record
		if err == nil {
			err = in.Parse(msg.Data)
		}
		if err != nil {
			t.Fatalf("incident %s: %v", subject, err)
		}
		all = append(all, in)
	}
	return all
}

// watchKey returns a function that waits until a value in the bucket is as
// wanted.
func watchKey(t *testing.T, s *natstest.Server, bucket string) func(wanted func([]byte) bool) {
	t.Helper()
	kv, err := s.JetStream().KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	watch, err := kv.WatchAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return func(wanted func([]byte) bool) {
		t.Helper()
		var last string
		for {
			select {
			case entry, more := <-watch.Updates():
				if !more {
					t.Fatalf("the value did not come; the last one was %s", last)
				}
				if entry == nil {
					continue
				}
				if last = string(entry.Value()); wanted(entry.Value()) {
					return
				}
			case <-time.After(patience):
				t.Fatalf("the value did not come; the last one was %s", last)
			}
		}
	}
}

// Detectors of an older version beat, and take nothing that is handed over under their
// names: those beside them count themselves.
func TestDetectorsCountBesideThoseThatTakeNoHandover(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	nc := s.Conn()
	beating := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(beating)
		tick := time.NewTicker(schemas.BeatEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			for i := range 8 {
				_ = nc.Publish(schemas.SubjectBeat, fmt.Append(nil, "old", i))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	defer func() { stop(); <-beating }()
	a, b := startDetector(t, s), startDetector(t, s)
	for run := range 20 {
		got := storm(t, s, promptCheck(fmt.Sprint("storm ", run)), 200, 1)
		if got.allowed > 5 || got.allowed+got.unknown < 5 || got.unknown > 20 {
			t.Errorf("run %d: %d passed and %d had no answer, want 5 and 0", run, got.allowed, got.unknown)
		}
	}
	if n := a.counted(t, "unloop_detector_handed_over_total") + b.counted(t, "unloop_detector_handed_over_total"); n == 0 {
		t.Error("nothing was handed over")
	}
}
