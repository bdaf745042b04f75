package main

import (
	"bytes"
	_ "embed"
	"text/template"
)

//go:embed brew/unloop.rb.tmpl
var formula string

// bottle is an archive that the Homebrew formula installs.
type bottle struct{ CPU, URL, Sum string }

// writeFormula writes the Homebrew formula, which installs the archives of the release.
func (r *release) writeFormula(targets []target) error {
	tmpl, err := template.New("formula").Parse(formula)
	if err != nil {
		return err
	}
	bottles := map[string][]bottle{}
	for _, t := range targets {
		cpu := map[string]string{"amd64": "intel", "arm64": "arm"}[t.arch]
		if system := map[string]string{"darwin": "macos", "linux": "linux"}[t.os]; system != "" {
			bottles[system] = append(bottles[system], bottle{cpu, r.url + "/" + r.archive(t), r.sums[r.archive(t)]})
		}
	}
	var text bytes.Buffer
	if err := tmpl.Execute(&text, map[string]any{"Version": r.version, "Bottles": bottles}); err != nil {
		return err
	}
	return r.writeFile("unloop.rb", text.Bytes())
}
