package policy

import "embed"

// examples are bundles to begin with.
//
//go:embed examples
var examples embed.FS

// Examples are the names of the bundles to begin with.
var Examples = []string{"quiet", "teams", "budgets"}

// Example returns a bundle to begin with, as YAML with comments; false for an unknown name.
func Example(name string) ([]byte, bool) {
	text, err := examples.ReadFile("examples/" + name + ".yaml")
	return text, err == nil
}
