package toolloop

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParametersThatMakeNoSenseAreRepaired(t *testing.T) {
	t.Parallel()
	edited := func(edit func(*Params)) Params {
		p := DefaultParams()
		edit(&p)
		return p
	}
	for name, c := range map[string]struct{ given, want Params }{
		"the defaults": {DefaultParams(), DefaultParams()},
		"several faults": {
			edited(func(p *Params) {
				p.WarnThreshold, p.BlockThreshold, p.PollMultiplier, p.MaxWarnings, p.Remember, p.Idle = 10, 2, 0, -1, 5000, 0
			}),
			edited(func(p *Params) { p.WarnThreshold, p.BlockThreshold, p.Remember = 2, 10, 1000 }),
		},
		"no blocking threshold": {edited(func(p *Params) { p.BlockThreshold = 0 }), DefaultParams()},
		"equal thresholds": {
			edited(func(p *Params) { p.WarnThreshold, p.BlockThreshold = 4, 4 }), edited(func(p *Params) { p.WarnThreshold, p.BlockThreshold = 4, 4 }),
		},
	} {
		if diff := cmp.Diff(c.want, c.given.repaired()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
