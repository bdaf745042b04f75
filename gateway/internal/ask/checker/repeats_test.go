package checker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// counting is a detector of the process that takes its time for each message, counts what
// is in it when it comes, and rejects from the sixth hit on.
func counting(t *testing.T, takes time.Duration) *natskit.InProcess {
	near := natskit.NewInProcess()
	var mu sync.Mutex
	hits := map[string]int{}
	decide := each(t, func(check *checkpb.Check) *checkpb.Decision {
		mu.Lock()
		defer mu.Unlock()
		id := string(check.GetCounters()[0].GetFingerprint())
		if hits[id]++; hits[id] > 5 {
			return &checkpb.Decision{Action: checkpb.Action_ACTION_REJECT}
		}
		return &checkpb.Decision{}
	})
	near.Serve(schemas.SubjectCheck, func(r natskit.Request) {
		batch, err := natskit.Message[checkpb.CheckBatch](r)
		if err != nil {
			t.Error(err)
		}
		decisions := decide(batch)
		time.AfterFunc(takes, func() { _ = r.Respond(decisions) })
	})
	return near
}

// A burst of loops at a detector that takes six times the timeout: hardly more requests of
// a loop pass than its policy allows.
func TestLoopsDoNotPassASlowDetector(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout)
	synctest.Test(t, func(t *testing.T) {
		c.Prefer(counting(t, 6*timeout))
		var passed [8]atomic.Int32
		var all sync.WaitGroup
		for i := range 100 * len(passed) {
			all.Go(func() {
				loop := i % len(passed)
				decision, _, err := c.Check(t.Context(), checkOf(fmt.Sprint("loop ", loop)))
				if err != nil || !decision.GetAction().Stops() {
					passed[loop].Add(1)
				}
			})
		}
		all.Wait()
		for i := range passed {
			if n := passed[i].Load(); n > 7 {
				t.Errorf("%d requests of loop %d passed", n, i)
			}
		}
	})
}

// What did not come often costs no more than the timeout, also while prompts that did wait.
func TestOnlyPromptsThatCameOftenWaitLonger(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout)
	synctest.Test(t, func(t *testing.T) {
		near, stop := busy(t, timeout)
		stop()
		c.Prefer(near)
		all := ask(t, c, 200, func(i int) *checkpb.Check {
			if i < 100 {
				return checkOf("often")
			}
			return checkOf(fmt.Sprint("once ", i))
		})
		late := 0
		for i, e := range all {
			switch {
			case e.err == nil || e.after > maxWait+slack:
				t.Errorf("check %d after %s: %v", i, e.after, e.err)
			case e.after > timeout+slack && i >= 100:
				t.Errorf("check %d, whose prompt came once, waited %s", i, e.after)
			case e.after > timeout+slack:
				late++
			}
		}
		if late != 100-(oftenFrom-1) {
			t.Errorf("%d checks waited longer, want all of the repeated ones but the first %d", late, oftenFrom-1)
		}
		if n := c.patients.Load(); n != 0 {
			t.Errorf("%d places are taken afterwards", n)
		}
		<-time.After(oftenWithin + time.Second)
		if e := ask(t, c, 1, func(int) *checkpb.Check { return checkOf("often") })[0]; e.after > timeout+slack {
			t.Errorf("a prompt that came often once waited %s", e.after)
		}
	})
}

func TestFewChecksWaitLongerAtOnce(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout)
	synctest.Test(t, func(t *testing.T) {
		near, stop := busy(t, timeout)
		stop()
		c.Prefer(near)
		late := 0
		for _, e := range ask(t, c, maxPatient+500, func(int) *checkpb.Check { return checkOf("often") }) {
			if e.after > timeout+slack {
				late++
			}
		}
		if late != maxPatient {
			t.Errorf("%d checks waited longer, want %d", late, maxPatient)
		}
	})
}
