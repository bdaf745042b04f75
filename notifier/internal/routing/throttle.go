package routing

import "time"

// Throttle bounds the messages of an endpoint. The zero value does not.
type Throttle struct {
	// Messages may be sent in any time of Per, all at once if need be.
	Messages int
	Per      time.Duration
}

// Take returns how long a message must wait before it is sent, and the state after it.
// The state is a time; its zero value is that of an endpoint that was idle. The algorithm
// is GCRA (ITU-T I.371) with a burst of Messages.
func (t Throttle) Take(state, now time.Time) (next time.Time, wait time.Duration) {
	if t.Messages <= 0 || t.Per <= 0 {
		return state, 0
	}
	each := t.Per / time.Duration(t.Messages)
	next = later(state, now).Add(each)
	return next, max(next.Sub(now)-t.Per, 0)
}
