package system

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the table of metrics into the docs")

// catalogue is the page that lists all metrics, between two markers.
const (
	catalogue = "../../../docs/operations.md"
	begin     = "<!-- metrics: begin -->\n"
	end       = "<!-- metrics: end -->\n"
)

// TestEveryMetricIsInTheDocs compares the table of the docs with the metrics that the
// services register. `go test ./unloop/system -run Metric -update` writes the table.
func TestEveryMetricIsInTheDocs(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Gateway.Auth, cfg.Gateway.AuthAudience = []string{"jwt:https://example.com/keys"}, []string{"unloop"}
	cfg.Notifier.Webhook = "https://example.com/hook"
	s, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	page, err := os.ReadFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), begin)
	documented, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no markers for the table of metrics", catalogue)
	}
	registered := table(s.metrics)
	if *update {
		if err := os.WriteFile(catalogue, []byte(before+begin+registered+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if documented != registered {
		t.Errorf("the table of metrics in %s is stale; run: go -C deploy test ./unloop/system -run Metric -update\nwant:\n%s", catalogue, registered)
	}
}

// described is the text form of a description, the only one that shows its parts.
var described = regexp.MustCompile(`^Desc\{fqName: "(unloop_[a-z_]+)", help: ("(?:[^"\\]|\\.)*"),.* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// table lists Unloop's metrics in the order of their names, each with its labels.
func table(registry *prometheus.Registry) string {
	descs := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descs)
		close(descs)
	}()
	var rows []string
	for desc := range descs {
		parts := described.FindStringSubmatch(desc.String())
		if parts == nil {
			continue // Go's own and the process's
		}
		var help string
		if _, err := fmt.Sscanf(parts[2], "%q", &help); err != nil {
			help = parts[2]
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", parts[1], labels(parts[3], parts[4]), strings.ReplaceAll(help, "|", `\|`)))
	}
	slices.Sort(rows)
	return "\n| metric | labels | is |\n|---|---|---|\n" + strings.Join(slices.Compact(rows), "") + "\n"
}

var constant = regexp.MustCompile(`([a-z_]+)="[^"]*"`)

func labels(constants, variables string) string {
	var names []string
	for _, found := range constant.FindAllStringSubmatch(constants, -1) {
		names = append(names, "`"+found[1]+"`")
	}
	for name := range strings.SplitSeq(variables, ",") {
		if name != "" {
			names = append(names, "`"+name+"`")
		}
	}
	return strings.Join(names, ", ")
}
