package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/unloop/unloop/deploy/dist/materials"
)

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// notices returns the licences of Go and of every module in the binary. It fails if a module
// has none, because such a module must not be distributed.
func (r *release) notices(ctx context.Context, build *debug.BuildInfo) ([]byte, error) {
	goroot, err := output(ctx, r.root, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders, err := r.moduleFolders(ctx, materials.External(build))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := appendLicences(&b, "Go "+build.GoVersion, goroot); err != nil {
		return nil, err
	}
	for _, module := range materials.External(build) {
		name := module.Path + " " + module.Version
		if err := appendLicences(&b, name, folders[name]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// moduleFolders returns the folder of each module in the module cache, by "PATH VERSION".
func (r *release) moduleFolders(ctx context.Context, modules []*debug.Module) (map[string]string, error) {
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, module := range modules {
		args = append(args, module.Path)
	}
	listed, err := output(ctx, filepath.Join(r.root, "deploy"), []string{"GOWORK=off"}, "go", args...)
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for line := range strings.SplitSeq(listed, "\n") {
		name, dir, _ := strings.Cut(line, "\t")
		folders[name] = dir
	}
	return folders, nil
}

func appendLicences(b *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	found := false
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "==== %s: %s\n\n%s\n\n", name, entry.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return fmt.Errorf("%s: no licence in its folder", name)
	}
	return nil
}
