package chart

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// TestRulesAndDashboardsAreThoseOfTheRepository compares what is rendered with the files that Prometheus
// and Grafana read elsewhere.
func TestRulesAndDashboardsAreThoseOfTheRepository(t *testing.T) {
	t.Parallel()
	all := render(t, cases(t)["everything"])
	want := map[string]*monitoringv1.PrometheusRuleSpec{}
	must(t, into(want)("file", toJSON(t, []byte(read(t, "../../observe/prometheus/alerts.yml")))))
	rule := all.rules[release+"-unloop"]
	if len(rule.Spec.Groups) == 0 || !reflect.DeepEqual(rule.Spec, *want["file"]) || rule.Labels["release"] != "prometheus" {
		t.Errorf("the rules are not those of alerts.yml, or not labelled: %v", rule.Labels)
	}
	files, err := filepath.Glob("../../observe/grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		dashboard := all.configMaps[release+"-unloop-dashboard-"+strings.TrimSuffix(name, ".json")]
		if dashboard == nil || dashboard.Data["unloop-"+name] != read(t, file) || dashboard.Labels["grafana_dashboard"] != "1" {
			t.Errorf("no ConfigMap has the dashboard %s", name)
		}
	}
}

// TestJobsAndLabelsAreThoseThatRulesKnow compares the jobs of the monitors with those that rules and
// dashboards select, and expects no label of a target to take the name of one of Unloop's own.
func TestJobsAndLabelsAreThoseThatRulesKnow(t *testing.T) {
	t.Parallel()
	config := read(t, "../../observe/prometheus/prometheus.yml")
	var jobs []string
	for _, job := range regexp.MustCompile(`(?m)^ {2}- job_name: (\S+)`).FindAllStringSubmatch(config, -1) {
		jobs = append(jobs, job[1])
	}
	all := render(t, cases(t)["everything"])
	var found []string
	for _, monitor := range all.monitors {
		relabel := monitor.Spec.Endpoints[0].RelabelConfigs
		found = append(found, *relabel[0].Replacement)
		dropped := regexp.MustCompile("^(" + relabel[1].Regex + ")$")
		for _, label := range []string{"service", "endpoint"} { // of the operator's targets, and of Unloop's metrics
			if !dropped.MatchString(label) {
				t.Errorf("%s keeps the target's label %s", monitor.Name, label)
			}
		}
	}
	slices.Sort(found)
	for _, job := range found {
		if !slices.Contains(jobs, job) {
			t.Errorf("no job of prometheus.yml is called %s: they are %v", job, jobs)
		}
	}
}

// TestTheDefaultsAreWhatTheImagesAndTheSchemaSay compares the names of the images with those that
// compose.yaml builds, and expects the schema to describe every value.
func TestTheDefaultsAreWhatTheImagesAndTheSchemaSay(t *testing.T) {
	t.Parallel()
	compose := read(t, "../../../compose.yaml")
	for name, pod := range render(t, "{nats: {init: {enabled: true}}}").pods() {
		if image := pod.Containers[0].Image; !strings.Contains(compose, "image: "+image+"\n") {
			t.Errorf("%s runs %s, which compose.yaml does not build", name, image)
		}
	}
	var schema map[string]any
	must(t, json.Unmarshal([]byte(read(t, chartFolder+"/values.schema.json")), &schema))
	definitions := schema["definitions"].(map[string]any)
	undescribed(t, "", parse(t, read(t, chartFolder+"/values.yaml")), schema, definitions)
}

// undescribed reports values that a schema lets pass without knowing them, and those that it knows
// without a default.
func undescribed(t *testing.T, path string, values, schema, definitions map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = definitions[strings.TrimPrefix(ref, "#/definitions/")].(map[string]any)
	}
	properties, ok := schema["properties"].(map[string]any)
	if open, closed := schema["additionalProperties"].(bool); !ok || !closed || open {
		return
	}
	for name := range properties {
		if _, ok := values[name]; !ok && name != "global" && !strings.HasSuffix(path, "resources") && path != "/nats/auth/secrets" {
			t.Errorf("%s/%s is in the schema and not in values.yaml", path, name)
		}
	}
	for name, value := range values {
		child, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("%s/%s is in values.yaml and not in the schema", path, name)
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			undescribed(t, path+"/"+name, inner, child, definitions)
		}
	}
}
