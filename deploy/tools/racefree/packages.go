package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// ours begins the import paths of the packages whose source is read.
const ours = "github.com/unloop/unloop/"

// listed is a package as `go list -json` describes it.
type listed struct {
	ImportPath, Dir                              string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
}

// packages are the listed packages by their import path. Those that were found to be
// sequential or not, without their tests, are in known.
type packages struct {
	listed map[string]*listed
	known  map[string]bool
}

func readPackages(in io.Reader) (packages, error) {
	all := packages{map[string]*listed{}, map[string]bool{}}
	for dec := json.NewDecoder(in); ; {
		p := &listed{}
		err := dec.Decode(p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("read the list of packages: %w", err)
		}
		all.listed[p.ImportPath] = p
	}
}

// raceFree returns the packages with tests that need no race detector. What they import
// may have locks of its own, but starts no goroutine.
func (all packages) raceFree() []string {
	var free []string
	for _, path := range slices.Sorted(maps.Keys(all.listed)) {
		p := all.listed[path]
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 || !all.sequential(path) {
			continue
		}
		own, err := readFiles(p.Dir, slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles))
		if err == nil && all.quiet(own) && !own.shares() {
			free = append(free, path)
		}
	}
	return free
}

// sequential reports whether a package without its tests, and all that it imports, works
// in the goroutine of its caller alone. A package that cannot be read does not.
func (all packages) sequential(path string) bool {
	if !strings.HasPrefix(path, ours) {
		return !concurrent(path)
	}
	is, seen := all.known[path]
	if p := all.listed[path]; !seen && p != nil && len(p.CgoFiles) == 0 {
		f, err := readFiles(p.Dir, p.GoFiles)
		is = err == nil && all.quiet(f)
		all.known[path] = is
	}
	return is
}

// quiet reports whether files start nothing themselves and import nothing that does.
func (all packages) quiet(f *files) bool {
	return !f.starts && !slices.ContainsFunc(f.imports, func(path string) bool { return !all.sequential(path) })
}

// concurrent reports whether a package of others starts goroutines or processes.
func concurrent(path string) bool {
	for _, one := range []string{
		"C", "os/exec", "os/signal", "testing/synctest", "golang.org/x/sync", "golang.org/x/net",
		"github.com/nats-io/nats.go", "github.com/nats-io/nats-server", "go.opentelemetry.io", "go.uber.org", "google.golang.org/grpc",
	} {
		if path == one || strings.HasPrefix(path, one+"/") {
			return true
		}
	}
	return path == "net"
}
