package reference

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const (
	root = "../../.."
	// write is the command that writes the pages.
	write = "go -C deploy test ./tools/reference -update"
)

var update = flag.Bool("update", false, "write docs/reference")

// The committed pages are those that -update writes, and there are no others.
func TestTheReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	var known []string
	for _, p := range pages() {
		known = append(known, p.file)
		want, err := p.text(root)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(filepath.Join(root, folder, p.file), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(filepath.Join(root, folder, p.file))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s/%s is stale; run: %s", folder, p.file, write)
		}
	}
	files, err := os.ReadDir(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(known, file.Name()) {
			t.Errorf("%s/%s is not written by -update", folder, file.Name())
		}
	}
}
