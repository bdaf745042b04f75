package gateway

import (
	"net/http"
	"slices"
	"time"

	"github.com/unloop/unloop/gateway/internal/outcome"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/record"
)

// kill answers a request that an operator refuses: by a block, or by a kill
// switch of the bundle. It comes before anything else and counts nothing.
func (g *Gateway) kill(w http.ResponseWriter, x *exchange) bool {
	reason, stopped := g.stopped(x)
	if !stopped {
		return false
	}
	x.out = outcome.Killed(reason, x.rules.FairvisorHeaders, x.Asked)
	if !x.Asked {
		g.metrics.requests.WithLabelValues(x.Provider.Name(), x.out.Label).Inc()
		defer g.record(x)()
	}
	g.respond(w, x)
	return true
}

// stopped says why an operator stopped the request. A block outranks a kill
// switch.
func (g *Gateway) stopped(x *exchange) (reason string, stopped bool) {
	now := g.now()
	if block, found := g.overrides.find(schemas.OverrideBlock, x.Identity, now); found {
		x.operator = record.Blocked
		return block.Reason, true
	}
	if reason, stopped = x.killSwitch(now); stopped {
		x.operator = record.KillSwitch
	}
	return reason, stopped
}

// killSwitch is the bundle's kill switch that the request falls under. A claim
// that is not verified is enough: whoever forges one only stops himself.
func (x *exchange) killSwitch(now time.Time) (reason string, killed bool) {
	if x.rules.KillSwitchesOff(now) {
		return "", false
	}
	for i := range x.rules.KillSwitches {
		k := &x.rules.KillSwitches[i]
		if !k.ActiveAt(now) || !x.isFor(k.Route) {
			continue
		}
		if value, ok := x.Descriptors.Get(k.Scope); ok && value.Text == k.ScopeValue {
			return k.Reason, true
		}
	}
	return "", false
}

// isFor says whether a request is for a route, which may be empty for all,
// however its path was written.
func (x *exchange) isFor(route string) bool {
	return route == "" || route == x.Path || slices.Contains(x.Target.Paths, route)
}

// exempt says whether an operator lets the request through without a check.
func (g *Gateway) exempt(x *exchange) bool {
	found, ok := g.overrides.find(schemas.OverrideExempt, x.Identity, g.now())
	if ok {
		x.Exempt, x.operator = string(found.Scope), record.Exempted
	}
	return ok
}
