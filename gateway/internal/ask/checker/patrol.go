package checker

import (
	"runtime"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// awaited returns since when a call's decision is waited for: since it was asked, or since
// the last decision on another one. A detector that is gone costs the timeout, and not the
// time that it was busy before.
func (c *Checker) awaited(one *call) natskit.Awaited {
	c.mu.Lock()
	defer c.mu.Unlock()
	return natskit.Awaited{From: c.begun(one), Until: one.at.Add(max(c.timeout, maxWait)), Patient: one.patient}
}

// begun is when the timeout of a call began; the lock is held.
func (c *Checker) begun(one *call) time.Time {
	if c.answered.After(one.at) {
		return c.answered
	}
	return one.at
}

// noteAnswer notes that a detector decides.
func (c *Checker) noteAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = time.Now()
}

// patrolLater looks at the calls that wait for a message after a while; the lock is held.
func (c *Checker) patrolLater() {
	began := time.Now()
	time.AfterFunc(c.timeout/10, func() {
		runtime.Gosched() // behind the answers that wait for a processor
		c.patrol(c.starved() || time.Since(began) > c.timeout/5)
	})
}

// patrol fails the calls that have waited for a message too long. While the process is
// starved, answers wait for a processor, too.
func (c *Checker) patrol(starved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if starved {
		c.answered = now
	}
	for _, queue := range []*fair.Queue[*call]{&c.waiting, &c.patience} {
		for {
			one, found := queue.Pop(func(one *call) bool { return c.overdue(one, now) != nil })
			if !found {
				break
			}
			one.done <- answer{err: c.overdue(one, now)}
		}
	}
	if c.patrolling = c.queued() > 0; c.patrolling {
		c.patrolLater()
	}
}

// overdue returns why a call waits no longer for a message; nil if it does. The lock is
// held.
func (c *Checker) overdue(one *call, now time.Time) error {
	switch {
	case now.Sub(c.begun(one)) >= c.timeout && (!now.Before(one.patient) || c.nc.Silent()):
		return ErrTimeout
	case now.Sub(one.at) >= max(c.timeout, maxWait):
		return ErrOverloaded
	default:
		return nil
	}
}
