package outbox

import "time"

// Schedule lists the waits before the second, third, … attempt.
type Schedule []time.Duration

const (
	// jitter is the largest relative change of a wait, so that messages that failed together
	// are not retried together.
	jitter = 0.1
	// MaxAfter bounds the pause that an endpoint can ask for.
	MaxAfter = 24 * time.Hour
)

// Wait returns the time until the next attempt, which is at least as long as the endpoint asked
// for. It returns false if no attempt is left. random is uniform in [0, 1).
func (s Schedule) Wait(attempts int, after time.Duration, random float64) (time.Duration, bool) {
	if attempts < 1 || attempts > len(s) {
		return 0, false
	}
	wait := time.Duration(float64(s[attempts-1]) * (1 - jitter + 2*jitter*random))
	return max(wait, min(after, MaxAfter)), true
}
