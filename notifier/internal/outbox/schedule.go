package outbox

import "time"

// Schedule lists the waits before the second, third, … attempt.
type Schedule []time.Duration

const (
	// jitter is the largest share by which a wait is longer or shorter, so that messages
	// that failed together are not retried together.
	jitter = 0.1
	// MaxAfter bounds how long an endpoint can ask to be left alone.
	MaxAfter = 24 * time.Hour
)

// Wait returns the time until the next attempt, after the given number of attempts and at
// least as long as the endpoint asked for. It returns false if there is no further attempt. random is uniform in [0, 1).
func (s Schedule) Wait(attempts int, after time.Duration, random float64) (time.Duration, bool) {
	if attempts < 1 || attempts > len(s) {
		return 0, false
	}
	wait := time.Duration(float64(s[attempts-1]) * (1 - jitter + 2*jitter*random))
	return max(wait, min(after, MaxAfter)), true
}
