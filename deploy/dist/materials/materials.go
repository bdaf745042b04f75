// Package materials writes the bill of materials (SBOM, CycloneDX) of a Go binary, from the
// modules that the linker recorded in it.
package materials

import (
	"bytes"
	"runtime/debug"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// Document returns the bill of materials of a binary as JSON. A zero time is omitted.
func Document(build *debug.BuildInfo, name, version string, made time.Time) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Component: &cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: version,
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	if !made.IsZero() {
		bom.Metadata.Timestamp = made.UTC().Format("2006-01-02T15:04:05Z")
	}
	components := []cyclonedx.Component{component("stdlib", build.GoVersion)}
	for _, module := range External(build) {
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

// External returns the third-party modules in the binary; for a replaced module, its
// replacement.
func External(build *debug.BuildInfo) []*debug.Module {
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
