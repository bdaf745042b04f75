// Package observe checks what shows Unloop to its operators: dashboards of Grafana, alert
// rules and the configuration of Prometheus, and the runbooks of the alerts. A real
// Prometheus scrapes a live system and answers each query; there is no Grafana, so that
// dashboards are checked by their structure.
package observe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// dashboard is a dashboard of Grafana, as far as it is checked.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	Description   string `json:"description"`
	SchemaVersion int    `json:"schemaVersion"`
	Links         []struct {
		URL string `json:"url"`
	} `json:"links"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
	file   string
}

// variable is a choice at the top of a dashboard.
type variable struct {
	Name        string     `json:"name"`
	Label       string     `json:"label"`
	Description string     `json:"description"`
	Type        string     `json:"type"`
	Datasource  datasource `json:"datasource"`
	Definition  string     `json:"definition"`
	AllValue    string     `json:"allValue"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	GridPos     struct{ H, W, X, Y int }
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []target `json:"targets"`
}

// target is a query of a panel.
type target struct {
	RefID   string `json:"refId"`
	Expr    string `json:"expr"`
	Legend  string `json:"legendFormat"`
	Format  string `json:"format"`
	Instant bool   `json:"instant"`
}

// dashboards returns all dashboards.
func dashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := make([]dashboard, len(files))
	for i, file := range files {
		if err := json.Unmarshal([]byte(read(t, file)), &all[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[i].file = file
	}
	return all
}

// alert is an alert rule.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts returns all alert rules.
func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	decode(t, "prometheus/alerts.yml", &file)
	var all []alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// decode reads a YAML file, in which there may be no other keys than the value has.
func decode(t *testing.T, file string, value any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, file)))
	decoder.KnownFields(true)
	if err := decoder.Decode(value); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// query is an expression, and where it stands.
type query struct{ at, expr string }

// queries returns the expressions of all panels and alerts.
func queries(t *testing.T) []query {
	t.Helper()
	var all []query
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, one := range p.Targets {
				all = append(all, query{d.file + ", " + p.Title, one.Expr})
			}
		}
	}
	for _, a := range alerts(t) {
		all = append(all, query{a.Alert, a.Expr})
	}
	return all
}

const (
	catalogue = "../../docs/reference/metrics.md"
	runbooks  = "../../docs/runbooks.md"
)

var (
	documented = regexp.MustCompile("(?m)^\\| `(unloop_[a-z_]+)` \\|")
	ours       = regexp.MustCompile(`\bunloop_[a-z_]+`)
	ofVectors  = regexp.MustCompile(`_(bucket|sum|count)$`)
)

func TestEveryMetricIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	var known []string
	for _, row := range documented.FindAllStringSubmatch(read(t, catalogue), -1) {
		known = append(known, row[1])
	}
	for _, q := range queries(t) {
		for _, name := range ours.FindAllString(q.expr, -1) {
			if !slices.Contains(known, name) && !slices.Contains(known, ofVectors.ReplaceAllString(name, "")) {
				t.Errorf("%s: the metric %s is not in %s", q.at, name, catalogue)
			}
		}
	}
}
