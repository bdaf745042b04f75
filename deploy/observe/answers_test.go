package observe

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shown is the time that the panels show in the test.
const shown = time.Minute

// TestPrometheusAnswersEveryQueryOfALiveSystem has a real Prometheus scrape a live system, with
// the key of its admin port, and runs each query of dashboards and alerts.
func TestPrometheusAnswersEveryQueryOfALiveSystem(t *testing.T) {
	t.Parallel()
	tool(t, "prometheus")
	l := startLive(t)
	p := startPrometheus(t, map[string][]string{
		"gateway": {l.admin, l.aloneOnly}, "detector": {l.admin}, "embedworker": {l.admin}, "notifier": {l.admin},
	}, l.keyFile)
	scraped := func() { // each target since now
		p.await(t, fmt.Sprintf("min(timestamp(up)) > %.3f and count(up == 1) == 5", float64(time.Now().UnixMilli())/1000))
	}
	p.await(t, "count(up == 1) == 5")
	l.send(t)
	scraped()
	p.await(t, "max(unloop_open_loops) > 0")
	l.release(t)
	p.await(t, "unloop_incidents_resolved_total > 0")
	p.await(t, `unloop_notifier_deliveries_total{result="rejected"} > 0`)
	l.send(t)
	scraped()

	checkTargets(t, p)
	checkAnswers(t, p)
	checkChoices(t, p)
	checkRules(t, p)
}

// checkTargets checks that each service is scraped as a job of its own.
func checkTargets(t *testing.T, p *prometheus) {
	t.Helper()
	result, err := p.query(`count by (job) (up == 1)`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for _, one := range result {
		jobs = append(jobs, one.Metric["job"])
	}
	slices.Sort(jobs)
	if want := []string{"unloop-detector", "unloop-embedworker", "unloop-gateway", "unloop-notifier"}; !slices.Equal(jobs, want) {
		t.Errorf("jobs %v are scraped, want %v", jobs, want)
	}
}

// filled returns an expression with the variables of a dashboard filled in, as Grafana does
// where all is chosen.
func filled(d dashboard, expr string) string {
	pairs := []string{"$__rate_interval", shown.String(), "$__range", shown.String()}
	for _, v := range d.Templating.List {
		pairs = append(pairs, "$"+v.Name, v.AllValue)
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

// checkAnswers checks that each query of each panel returns data.
func checkAnswers(t *testing.T, p *prometheus) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, panel := range d.Panels {
			for _, one := range panel.Targets {
				over := shown
				if one.Instant {
					over = 0
				}
				result, err := p.query(filled(d, one.Expr), over)
				if err != nil || !slices.ContainsFunc(result, series.number) {
					t.Errorf("%s, %s: %s has no data: %v", d.file, panel.Title, filled(d, one.Expr), err)
				}
				checkLegend(t, d.file+", "+panel.Title, one.Legend, result)
			}
		}
	}
}

// label is a label in a legend.
var label = regexp.MustCompile(`\{\{(\w+)\}\}`)

// checkLegend checks that the series have the labels that their legend shows.
func checkLegend(t *testing.T, at, legend string, result []series) {
	t.Helper()
	for _, name := range label.FindAllStringSubmatch(legend, -1) {
		if !slices.ContainsFunc(result, func(one series) bool { return one.Metric[name[1]] != "" }) {
			t.Errorf("%s: no series has the label %s", at, name[1])
		}
	}
}

// choice is the query of a variable.
var choice = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// checkChoices checks that each variable has something to choose.
func checkChoices(t *testing.T, p *prometheus) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Type == "datasource" {
				continue
			}
			parts := choice.FindStringSubmatch(v.Definition)
			if parts == nil {
				t.Errorf("%s, %s: %s is no query of labels", d.file, v.Name, v.Definition)
				continue
			}
			var values []string
			if err := p.get("label/"+parts[2]+"/values", url.Values{"match[]": {filled(d, parts[1])}}, &values); err != nil || len(values) == 0 {
				t.Errorf("%s, %s: nothing to choose: %v", d.file, v.Name, err)
			}
		}
	}
}

// selector is a metric with its labels in an expression.
var selector = regexp.MustCompile(`\b((?:unloop|go|process)_[a-z_]+|up)\b(\{[^}]*\})?`)

// checkRules checks that each alert is evaluated without a fault, looks at series that exist,
// and is active where the live system has its cause.
func checkRules(t *testing.T, p *prometheus) {
	t.Helper()
	for _, name := range []string{"UnloopNoDetector", "UnloopRequestsUnchecked", "UnloopRequestsRefused", "UnloopUpstreamErrors", "UnloopPoliciesDiffer", "UnloopDeadLetters"} {
		p.await(t, `ALERTS{alertname="`+name+`"}`)
	}
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
			}
		}
	}
	if err := p.get("rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			n++
			if rule.Health != "ok" {
				t.Errorf("%s: %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	all := alerts(t)
	if n != len(all) {
		t.Errorf("Prometheus has %d rules of %d", n, len(all))
	}
	for _, a := range all {
		for _, one := range selector.FindAllString(a.Expr, -1) {
			if one == "unloop_region_silent_seconds" {
				continue // of clusters of several regions, which this one is not
			}
			if result, err := p.query(one, 0); err != nil || len(result) == 0 {
				t.Errorf("%s: there is no series %s: %v", a.Alert, one, err)
			}
		}
	}
}
