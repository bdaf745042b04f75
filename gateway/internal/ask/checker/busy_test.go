package checker

import (
	"context"
	"errors"
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

const (
	// timeout is the checkers' in these tests, and slack the time by which they notice its
	// end later.
	timeout = 50 * time.Millisecond
	slack   = timeout / 5
)

// busy is a detector of the process that answers one message after the other and takes
// its time for each, until it stops.
func busy(t *testing.T, pace time.Duration) (near *natskit.InProcess, stop func()) {
	near = natskit.NewInProcess()
	var last time.Time
	var mu sync.Mutex
	var stopped atomic.Bool
	near.Serve(schemas.SubjectCheck, func(r natskit.Request) {
		batch, err := natskit.Message[checkpb.CheckBatch](r)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); last.Before(now) {
			last = now
		}
		last = last.Add(pace)
		time.AfterFunc(time.Until(last), func() {
			if !stopped.Load() {
				_ = r.Respond(each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} })(batch))
			}
		})
	})
	return near, func() { stopped.Store(true) }
}

// single is a check that shares no message.
func single(i int) *checkpb.Check {
	c := checkOf(fmt.Sprint("single ", i))
	c.Counters[0].Fingerprint = append(c.Counters[0].Fingerprint, make([]byte, largeCheck)...)
	return c
}

// ended is how a check ended.
type ended struct {
	after time.Duration
	err   error
}

// ask asks n checks at once, and returns how they ended.
func ask(t *testing.T, c *Checker, n int, check func(int) *checkpb.Check) []ended {
	out := make([]ended, n)
	var all sync.WaitGroup
	began := time.Now()
	for i := range n {
		all.Go(func() {
			_, _, err := c.Check(t.Context(), check(i))
			out[i] = ended{time.Since(began), err}
		})
	}
	all.Wait()
	return out
}

func TestADetectorThatIsBusyIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout) // its connection must not live in the bubble
	synctest.Test(t, func(t *testing.T) {
		near, _ := busy(t, timeout/2)
		c.Prefer(near)
		for i, e := range ask(t, c, 30, single) {
			if e.err != nil {
				t.Errorf("check %d after %s: %v", i, e.after, e.err)
			}
		}
	})
}

func TestADetectorThatIsBusyForLongIsOverloaded(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout)
	synctest.Test(t, func(t *testing.T) {
		near, _ := busy(t, timeout/2)
		c.Prefer(near)
		decided := 0
		for i, e := range ask(t, c, 60, single) {
			if e.err == nil {
				decided++
			} else if !errors.Is(e.err, ErrOverloaded) || e.after > maxWait+slack {
				t.Errorf("check %d after %s: %v", i, e.after, e.err)
			}
		}
		if want := int(maxWait / (timeout / 2)); decided < want-2 || decided > want {
			t.Errorf("%d decisions within %s, want %d", decided, maxWait, want)
		}
	})
}

func TestADetectorThatStopsCostsNoMoreThanTheTimeout(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(int) *checkpb.Check{
		"each in a message": single, "waiting for a message": func(i int) *checkpb.Check { return checkOf(fmt.Sprint(i)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := unstarved(natstest.StartBare(t).Service(), timeout)
			synctest.Test(t, func(t *testing.T) {
				near, stop := busy(t, timeout/2)
				c.Prefer(near)
				const stopAt = 3 * timeout
				time.AfterFunc(stopAt, stop)
				for i, e := range ask(t, c, 300, check) {
					if e.err != nil && (!errors.Is(e.err, ErrTimeout) || e.after > stopAt+timeout+slack) {
						t.Errorf("check %d after %s: %v", i, e.after, e.err)
					}
				}
				for i, e := range ask(t, c, 100, func(i int) *checkpb.Check { return check(1000 + i) }) { // nobody decides any more
					if !errors.Is(e.err, ErrTimeout) || e.after > timeout+slack {
						t.Errorf("later check %d after %s: %v", i, e.after, e.err)
					}
				}
			})
		})
	}
}

// However long the timeout is: a detector that decides nothing in that time is silent, and
// not busy.
func TestADetectorThatDecidesNothingIsSilent(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{timeout, maxWait, 2 * maxWait} {
		c := unstarved(natstest.StartBare(t).Service(), timeout)
		synctest.Test(t, func(t *testing.T) {
			near, stop := busy(t, timeout)
			stop()
			c.Prefer(near)
			for i, e := range ask(t, c, 2*maxSent, func(i int) *checkpb.Check { return checkOf(fmt.Sprint(i)) }) {
				if !errors.Is(e.err, ErrTimeout) || e.after > timeout+timeout/5 {
					t.Errorf("timeout %s: check %d after %s: %v", timeout, i, e.after, e.err)
				}
			}
		})
	}
}

// A record that can't be written is not the fault of a detector that is busy with others.
func TestACheckThatOthersOvertakeEndsWithATimeout(t *testing.T) {
	t.Parallel()
	const long = 10 * timeout
	c := unstarved(natstest.StartBare(t).Service(), long)
	synctest.Test(t, func(t *testing.T) {
		near := natskit.NewInProcess()
		var first atomic.Bool
		near.Serve(schemas.SubjectCheck, func(r natskit.Request) {
			if !first.Swap(true) {
				return
			}
			batch, err := natskit.Message[checkpb.CheckBatch](r)
			if err != nil {
				t.Error(err)
			}
			_ = r.Respond(each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} })(batch))
		})
		c.Prefer(near)
		overtaken := make(chan ended)
		go func() { overtaken <- ask(t, c, 1, single)[0] }()
		synctest.Wait()
		for i := range int(2 * maxWait / timeout) {
			<-time.After(timeout)
			if e := ask(t, c, 1, func(int) *checkpb.Check { return single(i + 1) })[0]; e.err != nil {
				t.Error(e.err)
			}
		}
		if e := <-overtaken; !errors.Is(e.err, ErrTimeout) || e.after > long+3*timeout+long/5 {
			t.Errorf("after %s: %v", e.after, e.err)
		}
	})
}

func TestAProcessThatLacksAProcessorWaitsForItsAnswers(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout)
	synctest.Test(t, func(t *testing.T) {
		one := &call{ctx: t.Context(), at: time.Now().Add(-timeout), done: make(chan answer, 1)}
		c.lane("").waiting.Push(0, one)
		c.patrolling = true
		c.patrol(true)
		select {
		case a := <-one.done:
			t.Fatalf("ended with %v before the process had its turn", a.err)
		default:
		}
		if a := <-one.done; !errors.Is(a.err, ErrTimeout) {
			t.Errorf("without a detector: %v", a.err)
		}
	})
}

func TestChecksOfClientsThatLeftAreNotSent(t *testing.T) {
	t.Parallel()
	c := unstarved(natstest.StartBare(t).Service(), timeout)
	synctest.Test(t, func(t *testing.T) {
		near := natskit.NewInProcess()
		var counted atomic.Int64
		near.Serve(schemas.SubjectCheck, func(r natskit.Request) {
			batch, err := natskit.Message[checkpb.CheckBatch](r)
			if err != nil {
				t.Error(err)
			}
			counted.Add(int64(len(batch.GetChecks())))
			time.AfterFunc(timeout/2, func() {
				_ = r.Respond(each(t, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} })(batch))
			})
		})
		c.Prefer(near)
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { _, _, _ = c.Check(ctx, checkOf(fmt.Sprint(i))) })
		}
		synctest.Wait()
		leave()
		all.Wait()
		<-time.After(timeout) // the messages under way are answered
		if n := counted.Load(); n != maxSent {
			t.Errorf("%d checks were counted, want the %d that were on their way", n, maxSent)
		}
	})
}
