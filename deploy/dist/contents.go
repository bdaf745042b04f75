package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/unloop/unloop/deploy/dist/materials"
)

// file is a file of an archive, or a folder if its name ends in a slash.
type file struct {
	name string
	mode int64
	body []byte
}

// contents returns the files of a platform's archive: the command, licences, a bill of
// materials (CycloneDX) and build information.
func (r *release) contents(ctx context.Context, t target, binary string, build *debug.BuildInfo) ([]file, error) {
	command, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files := []file{{t.binary(), 0o755, command}}
	for _, name := range []string{"LICENSE", "README.md"} {
		body, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, body})
	}
	notices, err := r.notices(ctx, build)
	if err != nil {
		return nil, fmt.Errorf("collect licences: %w", err)
	}
	sbom, err := materials.Document(build, "unloop", r.version, r.made)
	if err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return append(files,
		file{"THIRD_PARTY_LICENSES.txt", 0o644, notices},
		file{"unloop.cdx.json", 0o644, sbom},
		file{"BUILDINFO.txt", 0o644, []byte(build.String())},
	), nil
}
