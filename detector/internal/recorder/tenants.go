package recorder

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/kit/metric"
)

const (
	// maxTenants bounds the pairs of a tenant and a project that have metrics of their own:
	// clients may choose these names.
	maxTenants = 200
	// noTenant and otherTenants are the labels of requests without a tenant or project, and
	// of those for which there was no more room.
	noTenant, otherTenants = "(none)", "(other)"
)

// tenants counts incidents and savings by tenant and project.
type tenants struct {
	incidents, requests, usd *prometheus.CounterVec

	mu    sync.Mutex
	known map[tenant]bool
}

// tenant is the labels of a tenant's project.
type tenant struct{ tenant, project string }

func newTenants(reg prometheus.Registerer) *tenants {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Counters(reg, name, help, append([]string{"tenant", "project"}, labels...)...)
	}
	return &tenants{
		known:     map[tenant]bool{},
		incidents: counter("unloop_tenant_incidents_total", "Incidents announced, by tenant and project; after the first 200 pairs of a process, (other).", "mode"),
		requests:  counter("unloop_tenant_saved_requests_total", "Stopped requests, by tenant and project."),
		usd:       counter("unloop_tenant_saved_usd_total", "Estimated cost of stopped requests in US dollars, by tenant and project."),
	}
}

// of returns the labels for an incident.
func (t *tenants) of(rec incident.Record) tenant {
	own := tenant{label(rec.Tenant), label(rec.Project)}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.known[own]:
		return own
	case len(t.known) < maxTenants:
		t.known[own] = true
		return own
	default:
		return tenant{otherTenants, otherTenants}
	}
}

// label returns a name as a label, which must be UTF-8.
func label(name string) string {
	if name == "" {
		return noTenant
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// found counts an incident.
func (t *tenants) found(rec incident.Record) {
	who := t.of(rec)
	t.incidents.WithLabelValues(who.tenant, who.project, rec.Mode).Inc()
}

// saved adds what an incident's requests would have cost.
func (t *tenants) saved(rec incident.Record, requests, usd float64) {
	if requests <= 0 && usd <= 0 {
		return
	}
	who := t.of(rec)
	t.requests.WithLabelValues(who.tenant, who.project).Add(max(requests, 0))
	t.usd.WithLabelValues(who.tenant, who.project).Add(max(usd, 0))
}
