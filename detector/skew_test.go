package detector_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/detector"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

const halfYear = 182 * 24 * time.Hour

// apart are the clocks of the machines of detectors, by how far each is off.
var apart = map[string][]time.Duration{
	"two, 65 s":             {0, 65 * time.Second},
	"two, 6 h":              {0, 6 * time.Hour},
	"two, half year":        {0, halfYear},
	"two, half year behind": {-halfYear, 0},
	"two, neither right":    {-halfYear, 65 * time.Second},
	"eight":                 {0, 65 * time.Second, -65 * time.Second, 5 * time.Minute, -2 * time.Hour, 61 * time.Second, halfYear, 125 * time.Second},
}

// skewed runs detectors at unequal distances, on machines whose clocks are off by so
// much.
func skewed(t testing.TB, s *natstest.Server, off ...time.Duration) {
	t.Helper()
	for i, by := range off {
		local := detector.WithLocalClock(func() time.Time { return time.Now().Add(by) })
		startDetectorAt(t, s, s.Distant(time.Duration(i)*500*time.Microsecond), local)
	}
}

// Detectors judge as one, whatever the clocks of their machines show.
func TestDetectorsWhoseClocksDisagreeJudgeAsOne(t *testing.T) {
	t.Parallel()
	for name, clocks := range apart {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			skewed(t, s, clocks...)
			nc := s.Conn()
			countTogether(t, nc)
			keepABlock(t, nc, 8*len(clocks))
			shareLimits(t, nc, 4*len(clocks))
			rememberTools(t, nc)
		})
	}
}

// decided asks until a check is decided, and returns how often it was sent: on a
// machine under load it may be counted without an answer.
func decided(t *testing.T, nc *nats.Conn, check *checkpb.Check) (d *checkpb.Decision, sent int) {
	t.Helper()
	for {
		sent++
		if d = ask(t, nc, check)[0]; d.GetError() == "" {
			return d, sent
		}
	}
}

// steady is a check whose window outlasts the test on any machine.
func steady(prompt string) *checkpb.Check {
	c := promptCheck(prompt)
	c.Counters[0].WindowSeconds, c.Counters[0].CooldownSeconds = 600, 600
	return c
}

// patient raises the count from which on a check is rejected.
func patient(c *checkpb.Check, count uint32) *checkpb.Check {
	c.Counters[0].Threshold, c.Counters[0].Steps[0].At = count-1, count
	return c
}

func countTogether(t *testing.T, nc *nats.Conn) {
	t.Helper()
	const n = 100
	count, sent := 0, 0
	for range n {
		d, times := decided(t, nc, patient(steady("counted"), 1000))
		count, sent = int(d.GetHitCounts()[0]), sent+times
	}
	if count < n || count > sent {
		t.Errorf("%d hits reach %d", n, count)
	}
}

// Whichever detector is asked, a block holds for what is left of it.
func keepABlock(t *testing.T, nc *nats.Conn, hits int) {
	t.Helper()
	const cooldown = 10 * time.Minute
	began := time.Now()
	for range 6 {
		decided(t, nc, steady("blocked"))
	}
	for i := range hits {
		d, _ := decided(t, nc, steady("blocked"))
		if d.GetAction() != checkpb.Action_ACTION_REJECT {
			t.Fatalf("request %d of a block: %v", i+1, d.GetAction())
		}
		left := time.Duration(d.GetFindings()[0].GetBlockedMs()) * time.Millisecond
		const measured = 2 * time.Second // and not exactly, on a machine under load
		if least := cooldown - time.Since(began) - 2*measured; left > cooldown || left < least {
			t.Fatalf("request %d of a block: %s left, want at least %s", i+1, left, least)
		}
	}
}

// A budget, a bucket and a breaker let ten requests pass.
func shareLimits(t *testing.T, nc *nats.Conn, more int) {
	t.Helper()
	const week = 7 * 24 * time.Hour
	for kind, check := range map[string]*checkpb.Check{
		"budget": limited(func(l *checkpb.Limit) {
			l.Rule, l.Bucket = "weekly", nil
			l.Budget = &checkpb.Budget{Amount: 10, PeriodSeconds: uint32(week.Seconds()), Stages: []*checkpb.Stage{{Percent: 100, Action: checkpb.Action_ACTION_REJECT}}}
		}),
		"bucket":  limited(func(l *checkpb.Limit) { l.Bucket = &checkpb.Bucket{Rate: 0.001, Capacity: 10} }),
		"breaker": broken(11, uint32(week.Seconds())),
	} {
		passed, unknown := 0, 0
		for range 14 + more {
			d, sent := decided(t, nc, check)
			v := d.GetLimits()[0]
			if unknown += sent - 1; v.GetAction() == checkpb.Action_ACTION_ALLOW {
				passed++
			}
			if wait := time.Duration(v.GetRetryAfterMs()) * time.Millisecond; wait > week {
				t.Fatalf("%s: to be tried again after %s", kind, wait)
			}
		}
		most := 10
		if kind == "breaker" {
			most = 12 // a calendar minute may end meanwhile
		}
		if passed < 10-unknown || passed > most {
			t.Errorf("%s: %d passed, want 10", kind, passed)
		}
	}
}

// An agent that shows its newest rounds alone is remembered by all detectors.
func rememberTools(t *testing.T, nc *nats.Conn) {
	t.Helper()
	all := rounds(8, same)
	var got []string
	for i := range all {
		d, _ := decided(t, nc, toolCheck(all[max(0, i-1):i+1]...))
		got = append(got, d.GetAction().Label())
	}
	if diff := cmp.Diff([]string{"allow", "allow", "hint", "hint", "reject", "reject", "reject", "reject"}, got); diff != "" {
		t.Errorf("one call, one result (-want +got):\n%s", diff)
	}
}

// A daily budget that a detector half a year ahead has touched goes on by the clocks
// that are right.
func TestAWrongClockFreezesNoBudget(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	nc := s.Conn()
	daily := limited(func(l *checkpb.Limit) {
		l.Bucket = nil
		l.Budget = &checkpb.Budget{Amount: 3, PeriodSeconds: 86400, Stages: []*checkpb.Stage{{Percent: 100, Action: checkpb.Action_ACTION_REJECT}}}
	})
	wrong := startDetector(t, s, detector.WithClock(func() time.Time { return time.Now().Add(halfYear) }))
	for range 4 {
		ruling(t, nc, daily)
	}
	wrong.stop()
	startDetector(t, s)
	for i := range 4 {
		v := ruling(t, nc, daily)
		if rejected := v.GetAction() == checkpb.Action_ACTION_REJECT; rejected != (i == 3) {
			t.Errorf("request %d of a budget of 3: %v", i+1, v.GetAction())
		}
		if wait := time.Duration(v.GetRetryAfterMs()) * time.Millisecond; wait > 24*time.Hour {
			t.Errorf("to be tried again after %s", wait)
		}
	}
}
