package checker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/fleet"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// fleetOf makes a checker know detectors that go on beating.
func fleetOf(c *Checker, names ...string) {
	for _, name := range names {
		c.fleet.HearAt(name, time.Now().Add(patience))
	}
}

func TestAllChecksOfACallerGoToOneDetector(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	var mu sync.Mutex
	asked := map[string]map[string]bool{} // detectors by caller
	names := []string{"a", "b", "c"}
	for _, name := range names {
		named(t, s, name, each(t, func(check *checkpb.Check) *checkpb.Decision {
			mu.Lock()
			defer mu.Unlock()
			caller := check.GetIdentity().GetCaller()
			if asked[caller] == nil {
				asked[caller] = map[string]bool{}
			}
			asked[caller][name] = true
			return &checkpb.Decision{}
		}))
	}
	gateways := []*Checker{newChecker(s.Service(), patience, time.Now), newChecker(s.Service(), patience, time.Now)}
	var all sync.WaitGroup
	for _, c := range gateways {
		fleetOf(c, names...)
		for i := range 300 {
			all.Go(func() {
				if _, _, err := c.Check(t.Context(), checkBy(i%30)); err != nil {
					t.Errorf("check %d: %v", i, err)
				}
			})
		}
	}
	all.Wait()
	used := map[string]int{}
	for caller, homes := range asked {
		if len(homes) != 1 {
			t.Errorf("%s has the detectors %v", caller, homes)
		}
		for home := range homes {
			used[home]++
		}
	}
	if len(used) != len(names) {
		t.Errorf("the callers' detectors are %v, want some at each of %v", used, names)
	}
}

// A caller with 30 % of the traffic gets two of four detectors, each session one of them;
// neither has much more to do than the others.
func TestAHotCallerIsSharedByTwoDetectors(t *testing.T) {
	t.Parallel()
	c := newChecker(natstest.StartBare(t).Service(), patience, time.Now)
	fleetOf(c, "a", "b", "c", "d")
	const checks = 20_000
	load, hot, sessions := map[string]int{}, map[string]int{}, map[string]map[string]bool{}
	for i := range checks {
		id := &checkpb.Identity{Caller: fmt.Sprint("caller ", i%1009), Session: fmt.Sprint("session ", i%1009)}
		isHot := i%10 < 3
		if isHot {
			id = &checkpb.Identity{Caller: "hot", Session: fmt.Sprint("hot session ", i*7%499)}
		}
		home, alone, shared := c.home(&checkpb.Check{Identity: id})
		if i < checks/10 {
			continue // it may take a while to be seen
		}
		load[home]++
		if sessions[id.GetSession()] == nil {
			sessions[id.GetSession()] = map[string]bool{}
		}
		sessions[id.GetSession()][home] = true
		if isHot {
			hot[home]++
		}
		if alone == shared || isHot && !shared {
			t.Fatalf("%s: alone %t, shared %t", id.GetCaller(), alone, shared)
		}
	}
	for name, n := range load {
		if share := float64(n) / (checks * 9 / 10); share > .4 { // 47 % at one
			t.Errorf("%s has %.0f %% of all checks", name, 100*share)
		}
	}
	for session, homes := range sessions {
		if len(homes) != 1 {
			t.Errorf("%s has the detectors %v", session, homes)
		}
	}
	if len(hot) != 2 {
		t.Errorf("the hot caller has the detectors %v", hot)
	}
}

func TestACallerThatWasHotHasOneDetectorAgain(t *testing.T) {
	t.Parallel()
	var h heat
	hot := false
	for range 2 * heatFrom {
		hot = h.hot(1, 2)
	}
	if !hot {
		t.Fatal("a caller that sends everything is not hot")
	}
	for i := range 4 * heatLasts {
		h.hot(uint64(2+i%500), 2)
	}
	if h.hot(1, 2) {
		t.Error("it is hot for ever")
	}
}

// A detector that is slow, or has much to do, holds up its own callers alone.
func TestABusyDetectorHoldsUpItsOwnCallersAlone(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	release := make(chan struct{})
	named(t, s, "slow", func(b *checkpb.CheckBatch) []byte {
		<-release
		return each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} })(b)
	})
	named(t, s, "quick", each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} }))
	c := newChecker(s.Service(), patience, time.Now)
	fleetOf(c, "slow", "quick")
	next := 0
	ofHome := func(home string) *checkpb.Check { // of another caller each time
		for {
			next++
			if check := checkBy(next); c.fleet.Choose(fleet.Hash(check.GetIdentity().GetCaller())).First == home {
				return check
			}
		}
	}
	var flood sync.WaitGroup
	for range 500 {
		check := ofHome("slow")
		flood.Go(func() {
			if _, _, err := c.Check(fair.WithCaller(t.Context(), 1), check); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, c, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lane("slow").sent == maxSent && c.lane("slow").waiting.Len() > 0
	})
	for range 10 {
		if _, _, err := c.Check(fair.WithCaller(t.Context(), 2), ofHome("quick")); err != nil {
			t.Error(err)
		}
	}
	close(release)
	flood.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lanes) != 0 {
		t.Errorf("%d lanes are left without a check", len(c.lanes))
	}
}

// A detector of the process has the records of its callers alone only if there is no other
// one, to which other gateways send them.
func TestOnlyOneDetectorOfACallerIsToldThatItIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	apart, near := newChecker(s.Service(), patience, time.Now), newChecker(s.Service(), patience, time.Now)
	together := natskit.NewInProcess()
	together.Serve(schemas.SubjectCheck, func(natskit.Request) {})
	near.Prefer(together)
	for detectors, want := range []struct{ apart, near bool }{{false, false}, {true, true}, {true, false}} {
		if _, alone, _ := apart.home(checkBy(1)); alone != want.apart {
			t.Errorf("one of %d detectors is said to be alone: %t", detectors, alone)
		}
		if name, alone, _ := near.home(checkBy(1)); alone != want.near || name != "" {
			t.Errorf("that of the process is %q and, beside %d, said to be alone: %t", name, detectors, alone)
		}
		for _, c := range []*Checker{apart, near} {
			fleetOf(c, fmt.Sprint("d", detectors))
		}
	}
}

// Outcomes go where the checks of their caller do; to any detector if that is gone, or takes
// none under its name.
func TestOutcomesGoToTheDetectorOfTheirCaller(t *testing.T) {
	t.Parallel()
	s := natstest.StartBare(t)
	nc := s.Conn()
	told := make(chan string, 1)
	for _, subject := range []string{schemas.OutcomeSubject("here"), schemas.SubjectOutcome} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { told <- m.Subject }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ name, subject string }{{"here", schemas.OutcomeSubject("here")}, {"old", schemas.SubjectOutcome}} {
		c := newChecker(s.Service(), patience, time.Now)
		fleetOf(c, want.name)
		for what, tell := range map[string]func(){
			"an outcome":   func() { c.Outcome(checkBy(1), false) },
			"a correction": func() { c.Correct("caller 1", []*checkpb.Correction{{Delta: 1}}) },
		} {
			tell()
			if got := <-told; got != want.subject {
				t.Errorf("%s of a caller of %s went to %s", what, want.name, got)
			}
		}
	}
}
