package routing

import "time"

// Throttle is a rate limit of an endpoint. The zero value has no limit.
type Throttle struct {
	// Messages is the limit in each period of Per, in which they may be sent all at once.
	Messages int
	Per      time.Duration
}

// Take returns how long a message must wait before it is sent, and the state after it. The
// state is a time, which is zero for an idle endpoint. The algorithm is GCRA (ITU-T I.371)
// with a burst of Messages.
func (t Throttle) Take(state, now time.Time) (next time.Time, wait time.Duration) {
	if t.Messages <= 0 || t.Per <= 0 {
		return state, 0
	}
	each := t.Per / time.Duration(t.Messages)
	next = later(state, now).Add(each)
	return next, max(next.Sub(now)-t.Per, 0)
}
