package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// file is a file of an archive.
type file struct {
	name string
	mode int64
	body []byte
}

// contents returns the files of a platform's archive: the command, the licences, a bill
// of materials (CycloneDX) and how the command was built.
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
	materials, err := r.materials(build)
	if err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return append(files,
		file{"THIRD_PARTY_LICENSES.txt", 0o644, notices},
		file{"unloop.cdx.json", 0o644, materials},
		file{"BUILDINFO.txt", 0o644, []byte(build.String())},
	), nil
}

// materials returns a CycloneDX document of the modules in the binary.
func (r *release) materials(build *debug.BuildInfo) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.made.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			BOMRef: "unloop", Type: cyclonedx.ComponentTypeApplication, Name: "unloop", Version: r.version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	components := []cyclonedx.Component{component("stdlib", build.GoVersion)}
	for _, module := range external(build) {
		components = append(components, component(module.Path, module.Version))
	}
	bom.Components = &components
	var b bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return b.Bytes(), err
}

// component describes a Go module by its package URL.
func component(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url,
	}
}

// external returns the modules in the binary that are not ours. A module that is
// replaced is listed as what replaces it.
func external(build *debug.BuildInfo) []*debug.Module {
	var modules []*debug.Module
	for _, module := range build.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Version != "" && module.Version != "(devel)" {
			modules = append(modules, module)
		}
	}
	return modules
}
