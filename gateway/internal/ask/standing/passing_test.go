package standing

import (
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// A request passes when its block is over and, if nothing else is sent, its window has
// room. The detector names the first such moment, 20 seconds after its finding here.
func TestWhenABlockedRequestPasses(t *testing.T) {
	t.Parallel()
	sliding := func(ages ...uint32) *checkpb.Finding { return &checkpb.Finding{RetryAfterMs: 20_000, HitAgesMs: ages} }
	many := make([]uint32, maxHitTimes+5)
	for name, c := range map[string]struct {
		window checkpb.Window
		of     *checkpb.Finding
		hits   []time.Duration // on the block, after the finding
		at     time.Duration
		left   time.Duration // of the block
		want   time.Duration
	}{
		"no moment named":                  {checkpb.Window_WINDOW_FIXED, &checkpb.Finding{}, nil, 0, 10 * time.Second, 0},
		"a fixed window ends":              {checkpb.Window_WINDOW_FIXED, sliding(), nil, 5 * time.Second, 10 * time.Second, 15 * time.Second},
		"hits don't move a fixed window":   {checkpb.Window_WINDOW_FIXED, sliding(), []time.Duration{5 * time.Second}, 5 * time.Second, 10 * time.Second, 15 * time.Second},
		"a block outlasts a window":        {checkpb.Window_WINDOW_FIXED, sliding(), nil, 5 * time.Second, 30 * time.Second, 30 * time.Second},
		"a window restarts with each hit":  {checkpb.Window_WINDOW_REFRESH, sliding(), []time.Duration{5 * time.Second}, 10 * time.Second, time.Second, 55 * time.Second},
		"a sliding window":                 {checkpb.Window_WINDOW_SLIDING, sliding(1000, 2000, 3000), nil, 0, time.Second, 58 * time.Second},
		"a hit puts it off":                {checkpb.Window_WINDOW_SLIDING, sliding(1000, 2000, 3000), []time.Duration{0}, 0, time.Second, 59 * time.Second},
		"too few hits to stop":             {checkpb.Window_WINDOW_SLIDING, sliding(1000), nil, 0, time.Second, time.Second},
		"older hits are forgotten":         {checkpb.Window_WINDOW_SLIDING, sliding(many...), nil, 0, time.Second, 60 * time.Second},
		"never longer than the parameters": {checkpb.Window_WINDOW_FIXED, &checkpb.Finding{RetryAfterMs: 900_000}, nil, 0, time.Second, 60 * time.Second},
		"never less than a millisecond":    {checkpb.Window_WINDOW_FIXED, sliding(), nil, time.Minute, 0, time.Millisecond},
	} {
		found := time.Now()
		p := newPassing(c.of, found)
		for _, after := range c.hits {
			p.hit(found.Add(after))
		}
		counter := &checkpb.Counter{Window: c.window, WindowSeconds: 60, CooldownSeconds: 30}
		steps := []*checkpb.Step{{At: 2, Action: checkpb.Action_ACTION_WARN}, {At: 3, Action: checkpb.Action_ACTION_REJECT}}
		if got := time.Duration(p.after(counter, steps, found.Add(c.at), c.left)) * time.Millisecond; got != c.want {
			t.Errorf("%s: passes in %s, want %s", name, got, c.want)
		}
	}
}

func TestHitTimesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newPassing(&checkpb.Finding{RetryAfterMs: 1}, now)
	for range maxHitTimes + 10 {
		p.hit(now)
	}
	if len(p.hits) != maxHitTimes || !p.missing {
		t.Errorf("%d hit times, some missing: %v", len(p.hits), p.missing)
	}
	// A count that is higher than what is kept is not met before the oldest known hit ends.
	steps := []*checkpb.Step{{At: 1000, Action: checkpb.Action_ACTION_REJECT}}
	if got := p.after(&checkpb.Counter{Window: checkpb.Window_WINDOW_SLIDING, WindowSeconds: 60}, steps, now, time.Second); got != 60_000 {
		t.Errorf("passes in %d ms", got)
	}
}

func TestStopsAt(t *testing.T) {
	t.Parallel()
	for want, steps := range map[int][]*checkpb.Step{
		1: {{At: 2, Action: checkpb.Action_ACTION_WARN}},
		4: {{At: 2, Action: checkpb.Action_ACTION_WARN}, {At: 4, Action: checkpb.Action_ACTION_REJECT}, {At: 6, Action: checkpb.Action_ACTION_BREAK}},
	} {
		if got := stopsAt(steps); got != want {
			t.Errorf("%v stop at %d, want %d", steps, got, want)
		}
	}
}
