package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is a release built from one revision of the source.
type release struct {
	root, out, version, revision string
	// url is the address at which the files will be published, registry that of the images.
	url, registry string
	// trim leaves the paths of this machine out of the binaries.
	trim bool
	// made is the time of the revision. All files have it, so that the same source gives the
	// same archives.
	made time.Time
	// sums are the checksums of the results, by their names relative to out.
	sums map[string]string
}

func newRelease(ctx context.Context, out, version string) (*release, error) {
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	head, err := output(ctx, root, nil, "git", "show", "-s", "--format=%h %cI", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("read the revision: %w", err)
	}
	revision, at, _ := strings.Cut(head, " ")
	made, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, fmt.Errorf("read the revision's time: %w", err)
	}
	if version == "" {
		version = "0.0.0-dev." + revision
	}
	if out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	return &release{
		root: root, out: out, version: strings.TrimPrefix(version, "v"), revision: revision, made: made.UTC(), sums: map[string]string{},
	}, os.MkdirAll(out, 0o755)
}

// add builds the command for a platform, and writes its archive and packages.
func (r *release) add(ctx context.Context, t target) error {
	dir, err := os.MkdirTemp("", "unloop-dist")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, t.binary())
	if err := r.build(ctx, t, binary); err != nil {
		return err
	}
	build, err := inspect(t, binary)
	if err != nil {
		return fmt.Errorf("inspect the binary: %w", err)
	}
	content, err := r.contents(ctx, t, binary, build)
	if err != nil {
		return err
	}
	if err := r.writeArchive(t, content); err != nil {
		return err
	}
	if t.os == "linux" {
		if err := r.writeDeb(t, binary, content); err != nil {
			return fmt.Errorf("write the Debian package: %w", err)
		}
	}
	return r.writePlatformPackage(t, content)
}

// finish writes the files for all platforms: the main npm package, the Homebrew formula, the
// names of the images, the SDKs and the checksums.
func (r *release) finish(targets []target) error {
	if err := errors.Join(r.writePackage(targets), r.writeFormula(targets), r.writeBake(), r.writeSDKs()); err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&sums, "%s  %s\n", r.sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// output runs a command in a folder and returns its standard output. The error contains its
// standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	printed, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(printed)), err
}
