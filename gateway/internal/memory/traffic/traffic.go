// Package traffic counts the requests of the last minute by outcome, for status displays.
// It knows the labels of outcomes, but no requests.
package traffic

import (
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/status"
)

// step is the interval of each number in status.Traffic.Requests.
const step = status.TrafficMinute / status.TrafficSteps

// Minute counts the requests of the last minute. The zero Minute is ready for use.
type Minute struct {
	mu    sync.Mutex
	steps [status.TrafficSteps]count
	last  time.Time
}

// count has the counts of one step. began is the step's time divided by step.
type count struct {
	began                                int64
	requests, unchecked, hinted, stopped int
}

// Note counts a request by the label of its outcome in metrics.
func (t *Minute) Note(now time.Time, label string) {
	at := now.UnixNano() / int64(step)
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.steps[at%status.TrafficSteps]
	if c.began != at {
		*c = count{began: at}
	}
	t.last = now
	c.requests++
	switch label {
	case "degraded", "overloaded", "fail-closed":
		c.unchecked++
	case "hint":
		c.hinted++
	case "reject", "break", "kill", "limit":
		c.stopped++
	}
}

// Describe returns the requests of the last minute; nil if none ever came.
func (t *Minute) Describe(now time.Time) *status.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.IsZero() {
		return nil
	}
	out := &status.Traffic{Last: t.last.UTC(), Requests: make([]int, status.TrafficSteps)}
	newest := now.UnixNano() / int64(step)
	for i := range out.Requests {
		at := newest - int64(status.TrafficSteps-1-i)
		if c := t.steps[at%status.TrafficSteps]; c.began == at {
			out.Requests[i] = c.requests
			out.Unchecked += c.unchecked
			out.Hinted += c.hinted
			out.Stopped += c.stopped
		}
	}
	return out
}
