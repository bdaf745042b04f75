package natskit

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestTrafficShowsThatAServerIsThere(t *testing.T) {
	t.Parallel()
	began := time.Now()
	seen := traffic{sent: 3, received: 5, shown: began}
	for name, c := range map[string]struct {
		now         nats.Statistics
		after       time.Duration
		heard, idle bool
	}{
		"it sends":                 {nats.Statistics{OutMsgs: 4, InMsgs: 6}, pulseIdle, true, false},
		"it owes answers":          {nats.Statistics{OutMsgs: 4, InMsgs: 5}, 0, false, false},
		"nothing happens":          {nats.Statistics{OutMsgs: 3, InMsgs: 5}, 0, false, true},
		"nothing happens for long": {nats.Statistics{OutMsgs: 3, InMsgs: 5}, pulseIdle, false, false},
		"a new connection":         {nats.Statistics{}, 0, false, false},
	} {
		one := seen
		if heard, idle := one.since(c.now, began.Add(c.after)); heard != c.heard || idle != c.idle {
			t.Errorf("%s: heard %t, idle %t", name, heard, idle)
		}
		if one.sent != c.now.OutMsgs || one.received != c.now.InMsgs || one.shown.After(began) != c.heard {
			t.Errorf("%s: keeps %+v", name, one)
		}
	}
}
