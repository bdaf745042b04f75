package recorder

import (
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/detector/internal/incident"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/openloop"
)

func TestSavingsAreWhatEachWriteAdds(t *testing.T) {
	t.Parallel()
	record := func(loop string, requests, tokens int, usd *float64) incident.Record {
		return incident.Record{Record: openloop.Record{Data: event.Data{
			LoopID: loop, Policy: "p", Detector: "tool", Saved: event.Saved{Requests: requests, InputTokens: tokens, USD: usd},
		}, Tenant: "acme"}}
	}
	s := newSavings(nil, newTenants(nil))
	one := record("one", 2, 100, nil)
	s.count(incident.Record{}, one)
	s.count(one, one) // a write that was applied before
	s.count(one, record("one", 5, 250, new(0.5)))
	s.count(record("one", 5, 250, new(0.5)), record("two", 1, 50, new(0.25))) // the next incident
	if got := testutil.ToFloat64(s.requests); got != 6 {
		t.Errorf("%v requests, want 6", got)
	}
	if got := testutil.ToFloat64(s.inputTokens); got != 300 {
		t.Errorf("%v input tokens, want 300", got)
	}
	if got := testutil.ToFloat64(s.usd); got != 0.75 {
		t.Errorf("%v dollars, want 0.75", got)
	}
}

func TestTenantsAreCountedInABoundedNumberOfSeries(t *testing.T) {
	t.Parallel()
	s := newTenants(nil)
	record := func(tenant, project string) incident.Record {
		return incident.Record{Record: openloop.Record{Data: event.Data{Mode: event.ModeEnforce}, Tenant: tenant, Project: project}}
	}
	s.found(record("", "search"))
	s.found(record("a\xff", ""))
	for i := range 2 * maxTenants {
		s.found(record("tenant", strconv.Itoa(i)))
		s.saved(record("tenant", strconv.Itoa(i)), 2, 0.5)
	}
	s.saved(record("", "search"), 3, 0)
	s.saved(record("", "search"), 0, 0)
	if got, want := testutil.CollectAndCount(s.incidents), maxTenants+1; got != want {
		t.Errorf("%d series, want %d", got, want)
	}
	rest := float64(maxTenants + 2)
	for labels, want := range map[[2]string]float64{{noTenant, "search"}: 1, {"a\uFFFD", noTenant}: 1, {otherTenants, otherTenants}: rest} {
		if got := testutil.ToFloat64(s.incidents.WithLabelValues(labels[0], labels[1], event.ModeEnforce)); got != want {
			t.Errorf("%v: %v incidents, want %v", labels, got, want)
		}
	}
	if got := testutil.ToFloat64(s.requests.WithLabelValues(noTenant, "search")); got != 3 {
		t.Errorf("%v requests, want 3", got)
	}
	if got := testutil.ToFloat64(s.usd.WithLabelValues(otherTenants, otherTenants)); got != rest/2 {
		t.Errorf("%v dollars, want %v", got, rest/2)
	}
}
