package reference

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// openAPI is the description of the API, as far as the page shows it.
type openAPI struct {
	Info struct {
		Description string `json:"description"`
	} `json:"info"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Summary     string `json:"summary"`
	Description string `json:"description"`
	Parameters  []struct {
		Name        string  `json:"name"`
		In          string  `json:"in"`
		Description string  `json:"description"`
		Required    bool    `json:"required"`
		Schema      *schema `json:"schema"`
	} `json:"parameters"`
	Body      *content            `json:"requestBody"`
	Responses map[string]*content `json:"responses"`
}

// content is a body in the form that one media type has.
type content struct {
	Description string `json:"description"`
	Content     map[string]struct {
		Schema *schema `json:"schema"`
	} `json:"content"`
}

// api lists the paths of the API and then the objects of their bodies.
func api(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "notifier", "internal", "api", "openapi.json"))
	if err != nil {
		return "", err
	}
	var doc openAPI
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	o := objects{defs: doc.Components.Schemas, known: map[string]bool{}}
	fmt.Fprintf(&o.out, "\n%s\n", doc.Info.Description)
	for _, at := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[at])) {
			o.operation(strings.ToUpper(method)+" "+at, doc.Paths[at][method])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.defs)) {
		o.describe(name, o.defs[name])
	}
	return strings.ReplaceAll(o.out.String(), "#/components/schemas/", "#"), nil
}

func (o *objects) operation(title string, op operation) {
	fmt.Fprintf(&o.out, "\n## %s\n\n%s.", title, op.Summary)
	if op.Description != "" {
		fmt.Fprintf(&o.out, " %s", op.Description)
	}
	o.out.WriteString("\n")
	var rows [][]string
	for _, p := range op.Parameters {
		kind, _, _ := o.kind(p.Name, p.Schema)
		must := ""
		if p.Required {
			must = "required"
		} else if p.Schema.Default != nil {
			must = code(fmt.Sprint(p.Schema.Default))
		}
		rows = append(rows, []string{code(p.Name), p.In, kind, must, constraint(p.Schema), p.Description})
	}
	if len(rows) > 0 {
		o.out.WriteString(table([]string{"parameter", "in", "type", "default", "constraint", "meaning"}, rows))
	}
	rows = nil
	if op.Body != nil {
		rows = append(rows, []string{"request", o.body(op.Body), op.Body.Description})
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r := op.Responses[status]
		rows = append(rows, []string{status, o.body(r), r.Description})
	}
	o.out.WriteString(table([]string{"status", "body", "meaning"}, rows))
}

// body returns the types of a body.
func (o *objects) body(c *content) string {
	var all []string
	for _, media := range slices.Sorted(maps.Keys(c.Content)) {
		words, _, _ := o.kind("object", c.Content[media].Schema)
		all = append(all, words)
	}
	return strings.Join(slices.Compact(all), ", ")
}
