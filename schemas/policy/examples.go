package policy

import "embed"

// examples are starter bundles.
//
//go:embed examples
var examples embed.FS

// Examples are the names of the starter bundles.
var Examples = []string{"quiet", "teams", "budgets"}

// Example returns a starter bundle as YAML with comments; false for an unknown name.
func Example(name string) ([]byte, bool) {
	text, err := examples.ReadFile("examples/" + name + ".yaml")
	return text, err == nil
}
