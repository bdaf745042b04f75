package reference

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/unloop/unloop/deploy/unloop/system"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
)

// metrics lists the metrics that the services register, with all that is optional on.
func metrics(string) (string, error) {
	cfg := system.DefaultConfig()
	cfg.Gateway.Auth, cfg.Gateway.AuthAudience = []string{"jwt:https://example.com/keys"}, []string{"unloop"}
	cfg.Notifier.Webhook = "https://example.com/hook"
	s, err := system.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	rows := described(s.Metrics())
	ended, end := context.WithCancel(context.Background())
	end()
	if err := s.Run(ended); err != nil && !errors.Is(err, context.Canceled) {
		return "", err
	}
	return table([]string{"metric", "labels", "meaning"}, rows), nil
}

// description is the text form of a description, the only one that shows its parts.
var description = regexp.MustCompile(`^Desc\{fqName: "(unloop_[a-z_]+)", help: ("(?:[^"\\]|\\.)*"),.* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// described returns a row for each of Unloop's metrics, by name.
func described(from prometheus.Collector) [][]string {
	descs := make(chan *prometheus.Desc)
	go func() {
		from.Describe(descs)
		close(descs)
	}()
	var rows [][]string
	for desc := range descs {
		parts := description.FindStringSubmatch(desc.String())
		if parts == nil {
			continue // Go's own and the process's
		}
		help, err := strconv.Unquote(parts[2])
		if err != nil {
			help = parts[2]
		}
		rows = append(rows, []string{code(parts[1]), labels(parts[3], parts[4]), help})
	}
	slices.SortFunc(rows, slices.Compare)
	return slices.CompactFunc(rows, slices.Equal)
}

var constant = regexp.MustCompile(`([a-z_]+)="[^"]*"`)

func labels(constants, variables string) string {
	var names []string
	for _, found := range constant.FindAllStringSubmatch(constants, -1) {
		names = append(names, code(found[1]))
	}
	for name := range strings.SplitSeq(variables, ",") {
		if name != "" {
			names = append(names, code(name))
		}
	}
	return strings.Join(names, ", ")
}

// alerts lists the alerting rules.
func alerts(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "observe", "prometheus", "alerts.yml"))
	if err != nil {
		return "", err
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return "", err
	}
	var rows [][]string
	for _, group := range file.Groups {
		for _, a := range group.Rules {
			runbook := fmt.Sprintf("[%s](../runbooks.md#%s)", a.Alert, strings.ToLower(a.Alert))
			rows = append(rows, []string{runbook, a.Labels["severity"], a.For, code(strings.TrimSpace(a.Expr)), a.Annotations["description"]})
		}
	}
	return table([]string{"alert", "severity", "for", "expression", "meaning"}, rows), nil
}

// nats lists the streams and the permissions of users.
func nats(string) (string, error) {
	var b strings.Builder
	b.WriteString("\n## Streams and buckets\n\nThe stream KV_NAME holds the bucket NAME.\n")
	var rows [][]string
	for _, cfg := range (natskit.Layout{}).Everything().Configs() {
		rows = append(rows, []string{
			code(cfg.Name), code(strings.Join(cfg.Subjects, " ")), fmt.Sprintf("%d MiB", cfg.MaxBytes>>20), days(cfg.MaxAge), whenFull(cfg), cfg.Description,
		})
	}
	b.WriteString(table([]string{"stream", "subjects", "size", "age", "when full", "holds"}, rows))
	b.WriteString("\n## Permissions\n")
	for _, u := range append(natsperm.Users(), natsperm.Link("REGION", "ORIGIN")) {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", u.Name, u.Does)
		rows = nil
		for _, side := range []struct {
			verb string
			all  []natsperm.Permission
		}{{"publish", u.Publish}, {"subscribe", u.Subscribe}} {
			for _, p := range side.all {
				rows = append(rows, []string{side.verb, code(strings.Join(p.Subjects, "` `")), p.Why})
			}
		}
		b.WriteString(table([]string{"may", "subjects", "to"}, rows))
	}
	return b.String(), nil
}

func days(age time.Duration) string {
	if age == 0 {
		return ""
	}
	return fmt.Sprintf("%d days", int(age.Hours())/24)
}

// whenFull says what a full stream does with a new message.
func whenFull(cfg jetstream.StreamConfig) string {
	if cfg.Discard == jetstream.DiscardNew {
		return "refuses new records"
	}
	return "drops the oldest"
}
