package observe

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is where the runbooks are read.
const page = "https://github.com/unloop/unloop/blob/main/docs/runbooks.md#"

var heading = regexp.MustCompile(`(?m)^## (Unloop\w+)$`)

func TestEveryAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	text := read(t, runbooks)
	var written, wanted []string
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		written = append(written, found[1])
	}
	for _, a := range alerts(t) {
		wanted = append(wanted, a.Alert)
		if url := a.Annotations["runbook_url"]; url != page+strings.ToLower(a.Alert) {
			t.Errorf("%s: the runbook is at %s", a.Alert, url)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) {
			t.Errorf("%s: labels %v, annotations %v", a.Alert, a.Labels, a.Annotations)
		}
	}
	for _, name := range slices.Compact(wanted) {
		if !slices.Contains(written, name) {
			t.Errorf("%s has no runbook in %s", name, runbooks)
		}
	}
	for _, name := range written {
		if !slices.Contains(wanted, name) {
			t.Errorf("there is a runbook for %s, which is no alert", name)
		}
	}
}

// shownBy is a panel's title in a runbook.
var shownBy = regexp.MustCompile(`[ (]\*([A-Z][A-Za-z' ]+)\*`)

func TestRunbooksNamePanelsThatExist(t *testing.T) {
	t.Parallel()
	var titles []string
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			titles = append(titles, p.Title)
		}
	}
	named := shownBy.FindAllStringSubmatch(read(t, runbooks), -1)
	for _, title := range named {
		if !slices.Contains(titles, title[1]) {
			t.Errorf("no panel is named %s", title[1])
		}
	}
	if len(named) == 0 {
		t.Error("no runbook names a panel")
	}
}

// tool returns the path of a program of Prometheus, or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	server := os.Getenv("UNLOOP_TEST_PROMETHEUS")
	if server == "" {
		t.Skip("no Prometheus: install the Debian package prometheus, and set UNLOOP_TEST_PROMETHEUS to its path")
	}
	return filepath.Join(filepath.Dir(server), name)
}

// alertIn is an expression for an alert, in a state or in any.
var alertIn = regexp.MustCompile(`^ALERTS\{(?:alertstate="(\w+)", )?alertname="(\w+)"\}$`)

// TestPrometheusTestsEveryAlert has promtool run alerts_test.yml: for each alert, series with
// which it fires and series with which it does not.
func TestPrometheusTestsEveryAlert(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	var file struct {
		RuleFiles          []string `yaml:"rule_files"`
		EvaluationInterval string   `yaml:"evaluation_interval"`
		Tests              []struct {
			Interval string `yaml:"interval"`
			Series   []any  `yaml:"input_series"`
			Expected []struct {
				Expr    string `yaml:"expr"`
				Time    string `yaml:"eval_time"`
				Samples []any  `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		} `yaml:"tests"`
	}
	decode(t, "prometheus/alerts_test.yml", &file)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, one := range file.Tests {
		for _, expected := range one.Expected {
			m := alertIn.FindStringSubmatch(expected.Expr)
			if m == nil {
				t.Fatalf("%s looks at no alert", expected.Expr)
			}
			state, name := m[1], m[2]
			fires[name] = fires[name] || state == "firing" && len(expected.Samples) > 0
			quiet[name] = quiet[name] || len(expected.Samples) == 0
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !quiet[a.Alert] {
			t.Errorf("%s is not tested with series that fire and series that do not", a.Alert)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command(promtool, arguments...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}
