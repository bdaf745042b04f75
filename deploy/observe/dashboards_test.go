package observe

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// units are those of Grafana that the dashboards use.
var units = []string{"short", "s", "bytes", "percentunit", "reqps", "wps", "ops", "cpm", "currencyUSD"}

// lowest is the schema of the oldest Grafana that the dashboards are for: 11.
const lowest = 39

// columns is the width of Grafana's grid.
const columns = 24

func TestDashboardsAreWellFormed(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		if d.SchemaVersion < lowest || d.UID == "" || uids[d.UID] || d.Title == "" || d.Description == "" {
			t.Errorf("%s: schema %d, uid %q, title %q, description %q", d.file, d.SchemaVersion, d.UID, d.Title, d.Description)
		}
		uids[d.UID] = true
		checkVariables(t, d)
		checkPanels(t, d)
	}
	for _, d := range dashboards(t) {
		for _, link := range d.Links {
			if uid, inside := strings.CutPrefix(link.URL, "/d/"); inside && !uids[uid] {
				t.Errorf("%s: there is no dashboard %s", d.file, uid)
			}
		}
	}
}

func checkVariables(t *testing.T, d dashboard) {
	t.Helper()
	if all := d.Templating.List; len(all) == 0 || all[0].Name != "datasource" || all[0].Type != "datasource" {
		t.Errorf("%s: the data source is not the first variable", d.file)
	}
	for _, v := range d.Templating.List {
		if v.Label == "" || v.Description == "" {
			t.Errorf("%s: the variable %s has no label or description", d.file, v.Name)
		}
		if v.Type == "query" && (v.Datasource.UID != "${datasource}" || v.AllValue != ".*") {
			t.Errorf("%s: the variable %s does not come from the data source, or takes %q for all", d.file, v.Name, v.AllValue)
		}
	}
}

func checkPanels(t *testing.T, d dashboard) {
	t.Helper()
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		at := d.file + ", " + p.Title
		if ids[p.ID] || p.Title == "" {
			t.Errorf("%s: the id %d stands twice, or there is no title", at, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > columns || p.GridPos.W < 1 || p.GridPos.H < 1 {
			t.Errorf("%s: it is not within the grid", at)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[cell]; other != "" {
					t.Fatalf("%s lies over %s", at, other)
				}
				taken[cell] = p.Title
			}
		}
		if p.Type != "row" {
			checkPanel(t, d, p)
		}
	}
}

// used are the variables of an expression or a legend.
var used = regexp.MustCompile(`\$\{?([a-zA-Z_]+)`)

func checkPanel(t *testing.T, d dashboard, p panel) {
	t.Helper()
	at := d.file + ", " + p.Title
	if len(p.Description) < 20 || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || p.Datasource != (datasource{"prometheus", "${datasource}"}) {
		t.Errorf("%s: description %q, unit %q, data source %+v", at, p.Description, p.FieldConfig.Defaults.Unit, p.Datasource)
	}
	if len(p.Targets) == 0 {
		t.Errorf("%s has no query", at)
	}
	refs := map[string]bool{}
	for _, one := range p.Targets {
		if refs[one.RefID] || one.Legend == "" && one.Format != "table" {
			t.Errorf("%s: the query %q stands twice or has no legend", at, one.RefID)
		}
		refs[one.RefID] = true
		for _, name := range used.FindAllStringSubmatch(one.Expr, -1) {
			known := slices.ContainsFunc(d.Templating.List, func(v variable) bool { return v.Name == name[1] })
			if !known && !strings.HasPrefix(name[1], "__") {
				t.Errorf("%s: there is no variable %s", at, name[1])
			}
		}
	}
}

// TestProvisioningLeadsToTheDashboards checks the files that Grafana reads when it starts.
func TestProvisioningLeadsToTheDashboards(t *testing.T) {
	t.Parallel()
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name      string         `yaml:"name"`
			UID       string         `yaml:"uid"`
			Type      string         `yaml:"type"`
			Access    string         `yaml:"access"`
			URL       string         `yaml:"url"`
			IsDefault bool           `yaml:"isDefault"`
			JSONData  map[string]any `yaml:"jsonData"`
		} `yaml:"datasources"`
	}
	decode(t, "grafana/provisioning/datasources/prometheus.yml", &sources)
	if one := sources.Datasources[0]; sources.APIVersion != 1 || one.Type != "prometheus" || one.Access != "proxy" || !one.IsDefault || one.URL != "http://prometheus:9090" {
		t.Errorf("data source %+v", one)
	}
	var providers struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []struct {
			Name     string            `yaml:"name"`
			Folder   string            `yaml:"folder"`
			Type     string            `yaml:"type"`
			Edited   bool              `yaml:"allowUiUpdates"`
			Interval int               `yaml:"updateIntervalSeconds"`
			Options  map[string]string `yaml:"options"`
		} `yaml:"providers"`
	}
	decode(t, "grafana/provisioning/dashboards/unloop.yml", &providers)
	if one := providers.Providers[0]; providers.APIVersion != 1 || one.Type != "file" || !path.IsAbs(one.Options["path"]) {
		t.Errorf("provider %+v", one)
	}
	folders, err := os.ReadDir("grafana/provisioning")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !slices.Contains([]string{"datasources", "dashboards"}, folder.Name()) {
			t.Errorf("provisioning of %s is not checked", folder.Name())
		}
	}
}
