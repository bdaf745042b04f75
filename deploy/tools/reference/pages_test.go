// Package reference writes docs/reference: the pages that follow from the code, such as
// flags, metrics and the fields of policies. Its test fails for a page that is stale.
// Guides explain; they are written by hand and repeat nothing from here.
//
//	go -C deploy test ./tools/reference -update
package reference

import (
	"strings"
)

// folder is the folder of the pages in a repository.
const folder = "docs/reference"

// page is one page of the reference.
type page struct {
	file, title, intro string
	// body returns the page's text below its introduction. root is the root of the repository.
	body func(root string) (string, error)
}

// pages lists the reference.
func pages() []page {
	return []page{
		{"commands.md", "Commands, flags and variables", "Every flag has the environment variable beside it. A flag on the command line overrides its variable.", commands},
		{"policy.md", "Fields of a policy bundle", "For `--policies FILE` and `unloop policy push FILE`. [Policies](../policies.md) explains them.", policyFields},
		{"notify.md", "Fields of a notification file", "For `--notify FILE`. [Notifications](../notifications.md) explains them.", notifyFields},
		{"events.md", "Fields of an event", "For receivers of webhooks and subscribers of `loop.detected.>`, `loop.ongoing.>` and `loop.resolved.>`. [Events](../events.md) explains them.", eventFields},
		{"api.md", "HTTP API of the admin port", "Notifiers serve it, and `unloop up` does. [The dashboard](../dashboard.md) uses it.", api},
		{"metrics.md", "Metrics", "Every service serves its metrics at `/metrics` on its admin port. [Operations](../operations.md) says which ones to watch.", metrics},
		{"alerts.md", "Alerts", "The rules of `deploy/observe/prometheus/alerts.yml`. [Runbooks](../runbooks.md) say what to do.", alerts},
		{"nats.md", "NATS: streams, buckets and permissions", "What `unloop nats init` creates, and what the users of `unloop nats config` may do. [NATS](../nats.md) explains it.", nats},
	}
}

// text returns the whole page.
func (p page) text(root string) (string, error) {
	body, err := p.body(root)
	return "# " + p.title + "\n\n<!-- Written by `" + write + "`. Do not edit. -->\n\n" + p.intro + "\n" + body, err
}

// table returns a table, without the columns that no row uses.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for i, cell := range cells {
			if used(rows, i) {
				b.WriteString("| " + strings.ReplaceAll(strings.ReplaceAll(cell, "|", `\|`), "\n", " ") + " ")
			}
		}
		b.WriteString("|\n")
	}
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, row := range rows {
		line(row)
	}
	return "\n" + b.String()
}

// used reports whether a column has any text.
func used(rows [][]string, column int) bool {
	for _, row := range rows {
		if row[column] != "" {
			return true
		}
	}
	return false
}

// code marks a text as code; an empty one stays empty.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
