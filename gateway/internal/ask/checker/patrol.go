package checker

import (
	"runtime"
	"time"

	"github.com/unloop/unloop/gateway/internal/share/fair"
	"github.com/unloop/unloop/schemas/kit/natskit"
)

// awaited returns the time limits of a call. Its timeout starts when it was asked, or with
// the last decision on another call: waiting for a detector that is gone costs only the
// timeout.
func (c *Checker) awaited(l *lane, one *call) natskit.Awaited {
	c.mu.Lock()
	defer c.mu.Unlock()
	return natskit.Awaited{From: l.begun(one), Until: one.at.Add(max(c.timeout, maxWait)), Patient: one.patient}
}

// begun returns the start of a call's timeout; the lock is held.
func (l *lane) begun(one *call) time.Time {
	if l.answered.After(one.at) {
		return l.answered
	}
	return one.at
}

// noteAnswer records that the lane's detector is deciding.
func (c *Checker) noteAnswer(l *lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.answered = time.Now()
}

// patrolLater schedules a patrol; the lock is held.
func (c *Checker) patrolLater() {
	began := time.Now()
	time.AfterFunc(c.timeout/10, func() {
		runtime.Gosched() // let answers that wait for a processor come first
		c.patrol(c.starved() || time.Since(began) > c.timeout/5)
	})
}

// patrol fails the calls that have waited too long for a message. While the process is
// starved, that time does not count: answers wait for a processor, too.
func (c *Checker) patrol(starved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.patrolling = false
	for _, l := range c.lanes {
		if starved {
			l.answered = now
		}
		c.failOverdue(l, now)
		c.patrolling = c.patrolling || l.queued() > 0
	}
	if c.patrolling {
		c.patrolLater()
	}
}

// failOverdue fails the calls of a lane that have waited too long; the lock is held.
func (c *Checker) failOverdue(l *lane, now time.Time) {
	for _, queue := range []*fair.Queue[*call]{&l.waiting, &l.patience} {
		for {
			one, found := queue.Pop(func(one *call) bool { return c.overdue(l, one, now) != nil })
			if !found {
				break
			}
			one.done <- answer{err: c.overdue(l, one, now)}
		}
	}
}

// overdue returns the error of a call that has waited too long for a message; nil for others.
// The lock is held.
func (c *Checker) overdue(l *lane, one *call, now time.Time) error {
	switch {
	case now.Sub(l.begun(one)) >= c.timeout && (!now.Before(one.patient) || c.nc.Silent()):
		return ErrTimeout
	case now.Sub(one.at) >= max(c.timeout, maxWait):
		return ErrOverloaded
	default:
		return nil
	}
}
