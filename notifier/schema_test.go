package notifier

import (
	"bytes"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/unloop/unloop/notifier/internal/endpoints"
	"github.com/unloop/unloop/schemas/policy"
)

//go:generate go test . -run TestTheSchemaOfFilesIsUpToDate -update

var update = flag.Bool("update", false, "write notify.schema.json")

func TestTheSchemaOfFilesIsUpToDate(t *testing.T) {
	t.Parallel()
	const id = "https://raw.githubusercontent.com/unloop/unloop/main/notifier/notify.schema.json"
	want, err := policy.GenerateSchema(reflect.TypeFor[endpoints.File](), id, "Unloop endpoints of notifications")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("notify.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema, want) {
		t.Error("notify.schema.json is stale: run go generate")
	}
}
