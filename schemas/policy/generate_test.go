package policy

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"testing"
)

// schemaID names the schema; it is where it can be read.
const schemaID = "https://raw.githubusercontent.com/unloop/unloop/main/schemas/policy/bundle.schema.json"

var update = flag.Bool("update", false, "write bundle.schema.json")

func TestPublishedSchemaIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := GenerateSchema(reflect.TypeFor[Bundle](), schemaID, "Unloop policy bundle")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("bundle.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema, want) {
		t.Error("bundle.schema.json is stale: run go generate")
	}
}
