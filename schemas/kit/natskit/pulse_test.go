package natskit

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAConnectionWithoutUseNeedsNoRoundTrip(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for name, c := range map[string]struct {
		sent  uint64
		after time.Duration
		idle  bool
	}{
		"something is sent":     {4, 0, false},
		"nothing is sent":       {3, pulseIdle - 1, true},
		"nothing, and for long": {3, pulseIdle, false},
		"a new connection":      {0, 0, false},
	} {
		i := idle{sent: 3, answered: began}
		if got := i.since(nats.Statistics{OutMsgs: c.sent, InMsgs: 7}, began.Add(c.after)); got != c.idle || i.sent != c.sent {
			t.Errorf("%s: idle %t, keeps %+v", name, got, i)
		}
	}
}
