// Command sbom writes the bill of materials (CycloneDX) of each binary: the Go modules in
// it.
//
//	sbom -out DIR [-version V] BINARY…
//
// It writes DIR/NAME.cdx.json for each.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/unloop/unloop/deploy/dist/materials"
)

func main() {
	out := flag.String("out", ".", "folder for the documents")
	version := flag.String("version", "", "version of the binaries")
	flag.Parse()
	if err := write(*out, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(out, version string, binaries []string) error {
	if len(binaries) == 0 {
		return errors.New("name the binaries: sbom -out DIR BINARY")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, binary := range binaries {
		build, err := buildinfo.ReadFile(binary)
		if err != nil {
			return fmt.Errorf("read %s: %w", binary, err)
		}
		name := filepath.Base(binary)
		document, err := materials.Document(build, name, version, made(build.Settings))
		if err != nil {
			return fmt.Errorf("write the bill of materials of %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), document, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// made returns the time of the source that a binary was built of; zero if that is not
// recorded.
func made(settings []debug.BuildSetting) time.Time {
	for _, s := range settings {
		if s.Key == "vcs.time" {
			at, err := time.Parse(time.RFC3339, s.Value)
			if err == nil {
				return at
			}
		}
	}
	return time.Time{}
}
