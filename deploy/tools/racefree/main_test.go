package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sources are one package each: its file, and after a line of dashes its test.
var sources = map[string]string{
	"plain":    "import \"strings\"\n\nfunc f() string { return strings.ToUpper(\"a\") }\n---\nimport \"testing\"\n",
	"locked":   "import \"sync\"\n\nvar mu sync.Mutex\n---\nimport \"testing\"\n",
	"uses":     "import _ \"" + ours + "locked\"\n---\nimport \"testing\"\n",
	"global":   "var n int\n\nfunc f() { n++ }\n---\nimport \"testing\"\n",
	"table":    "var table = []int{1}\n\nfunc f() int { return table[0] }\n---\nimport \"testing\"\n",
	"starts":   "func f() { go f() }\n---\nimport \"testing\"\n",
	"reaches":  "import _ \"" + ours + "starts\"\n---\nimport \"testing\"\n",
	"serves":   "---\nimport \"net/http/httptest\"\n\nvar s = httptest.NewServer(nil)\n",
	"records":  "---\nimport \"net/http/httptest\"\n\nvar s = httptest.NewRecorder()\n",
	"nats":     "import _ \"github.com/nats-io/nats.go\"\n---\nimport \"testing\"\n",
	"broken":   "func {\n---\nimport \"testing\"\n",
	"testless": "func f() {}\n",
}

func TestPackagesThatStartNothingAreListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		p := listed{ImportPath: ours + name, Dir: dir}
		code, test, _ := strings.Cut(sources[name], "---\n")
		if code != "" {
			p.GoFiles = []string{name + ".go"}
		}
		if test != "" {
			p.TestGoFiles = []string{name + "_test.go"}
		}
		for file, text := range map[string]string{name + ".go": code, name + "_test.go": test} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte("package p\n\n"+text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := json.NewEncoder(&list).Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(strings.NewReader(list.String()), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{"plain", "records", "table", "uses"}
	if diff := cmp.Diff(want, strings.Fields(strings.ReplaceAll(out.String(), ours, ""))); diff != "" {
		t.Errorf("listed packages (-want +got):\n%s", diff)
	}
}
