// Command schemagen writes the JSON Schema of a policy bundle, as go generate
// asks for it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/unloop/unloop/schemas/policy"
)

func main() {
	out := flag.String("o", "bundle.schema.json", "the file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	schema, err := policy.GenerateSchema()
	if err != nil {
		return fmt.Errorf("make the schema: %w", err)
	}
	return os.WriteFile(path, schema, 0o644)
}
