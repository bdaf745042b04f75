package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const root = "../../.."

// The committed pages are those that the command writes, and there are no others.
func TestTheReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	var known []string
	for _, p := range pages() {
		known = append(known, p.file)
		want, err := p.text(root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, folder, p.file))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s/%s is stale; run: go -C deploy run ./tools/reference ..", folder, p.file)
		}
	}
	files, err := os.ReadDir(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(known, file.Name()) {
			t.Errorf("%s/%s is not written by the command", folder, file.Name())
		}
	}
}
