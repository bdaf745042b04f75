package counter

import (
	"fmt"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// FromWire reads the parameters of a counter and refuses what no gateway sends.
func FromWire(c *checkpb.Counter) (Params, error) {
	p := Params{
		Window: c.GetWindow(), Length: time.Duration(c.GetWindowSeconds()) * time.Second,
		Cooldown: time.Duration(c.GetCooldownSeconds()) * time.Second,
	}
	switch {
	case len(c.GetFingerprint()) != fingerprintSize:
		return p, fmt.Errorf("counter fingerprint has %d bytes, want 32", len(c.GetFingerprint()))
	case p.Window < checkpb.Window_WINDOW_REFRESH || p.Window > checkpb.Window_WINDOW_FIXED:
		return p, fmt.Errorf("counter window %d is unknown", p.Window)
	case p.Length <= 0 || p.Length > maxLength || p.Cooldown > maxLength:
		return p, fmt.Errorf("counter window and cooldown must be positive and at most %s", maxLength)
	}
	var err error
	p.Steps, err = levels(c.GetSteps(), MaxThreshold)
	return p, err
}

// maxLength is a year. JetStream's TTLs and our milliseconds can't hold much longer
// times.
const maxLength = 366 * 24 * time.Hour

// levels reads the steps of an escalation. The last step is at most at the given count.
func levels(steps []*checkpb.Step, most int) ([]Level, error) {
	if len(steps) == 0 || len(steps) > maxSteps {
		return nil, fmt.Errorf("counter has %d steps, must have 1 to %d", len(steps), maxSteps)
	}
	out, last := make([]Level, 0, len(steps)), 0
	for _, step := range steps {
		at, action := int(step.GetAt()), step.GetAction()
		if at <= last || at > most {
			return nil, fmt.Errorf("counter steps must rise from 1 to %d", most)
		}
		if action < checkpb.Action_ACTION_WARN || action > checkpb.Action_ACTION_BREAK {
			return nil, fmt.Errorf("counter action %d is unknown", action)
		}
		out, last = append(out, Level{At: at, Action: action}), at
	}
	return out, nil
}

// maxSteps is more than there are actions.
const maxSteps = 16
