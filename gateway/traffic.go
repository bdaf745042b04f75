package gateway

import (
	"sync"
	"time"

	"github.com/unloop/unloop/schemas/status"
)

// trafficStep is the time that a number of Traffic.Requests covers.
const trafficStep = status.TrafficMinute / status.TrafficSteps

// traffic counts the requests of the last minute, for people who ask whether all is well.
type traffic struct {
	mu    sync.Mutex
	steps [status.TrafficSteps]trafficCount
	last  time.Time
}

// trafficCount counts the requests of a step, which began at its time divided by trafficStep.
type trafficCount struct {
	began                                int64
	requests, unchecked, hinted, stopped int
}

// note counts a request with the label of its outcome in metrics.
func (t *traffic) note(now time.Time, label string) {
	at := now.UnixNano() / int64(trafficStep)
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.steps[at%status.TrafficSteps]
	if c.began != at {
		*c = trafficCount{began: at}
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

// describe returns the requests of the last minute; nil if none ever came.
func (t *traffic) describe(now time.Time) *status.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.IsZero() {
		return nil
	}
	out := &status.Traffic{Last: t.last.UTC(), Requests: make([]int, status.TrafficSteps)}
	newest := now.UnixNano() / int64(trafficStep)
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
