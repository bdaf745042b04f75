package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed npm/launch.js
var launcher []byte

//go:embed npm/README.md
var npmReadme []byte

// manifest is the content of a package.json.
type manifest struct {
	Name                 string            `json:"name"`
	Version              string            `json:"version"`
	Description          string            `json:"description"`
	License              string            `json:"license"`
	Repository           string            `json:"repository"`
	Bin                  map[string]string `json:"bin,omitempty"`
	Engines              map[string]string `json:"engines,omitempty"`
	OptionalDependencies map[string]string `json:"optionalDependencies,omitempty"`
	OS                   []string          `json:"os,omitempty"`
	CPU                  []string          `json:"cpu,omitempty"`
	PreferUnplugged      bool              `json:"preferUnplugged,omitempty"`
}

const npmDescription = "A gateway in front of LLM traffic that stops looping agents."

// repository must match the provenance of a package, which npm checks.
const repository = "git+https://github.com/unloop/unloop.git"

// platformPackage returns the name of the npm package with the binary of one platform.
func platformPackage(t target) string { return "@unloop/" + t.npmOS() + "-" + t.npmCPU() }

// writePlatformPackage writes the npm package with the binary of one platform. npm
// installs only the one for the machine.
func (r *release) writePlatformPackage(t target, files []file) error {
	m := manifest{
		Name: platformPackage(t), Version: r.version, License: "Apache-2.0",
		Description: npmDescription + " The binary for " + t.String() + ".",
		OS:          []string{t.npmOS()}, CPU: []string{t.npmCPU()}, PreferUnplugged: true,
	}
	kept := make([]file, 0, len(files))
	for _, f := range files {
		if f.name != "README.md" {
			kept = append(kept, f)
		}
	}
	return r.pack(fmt.Sprintf("unloop-%s-%s-%s.tgz", t.npmOS(), t.npmCPU(), r.version), m, kept)
}

// writePackage writes the npm package that users install. It has no binary: it depends on
// the packages of all platforms, and starts the one that npm installs.
func (r *release) writePackage(targets []target) error {
	m := manifest{
		Name: "unloop", Version: r.version, License: "Apache-2.0", Description: npmDescription,
		Bin: map[string]string{"unloop": "launch.js"}, Engines: map[string]string{"node": ">=18"},
		OptionalDependencies: map[string]string{},
	}
	for _, t := range targets {
		m.OptionalDependencies[platformPackage(t)] = r.version
	}
	return r.pack("unloop-"+r.version+".tgz", m, []file{{"launch.js", 0o755, launcher}, {"README.md", 0o644, npmReadme}})
}

func (r *release) pack(name string, m manifest, files []file) error {
	m.Repository = repository
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return r.write(name, "package", append([]file{{"package.json", 0o644, body}}, files...), writeTarGz)
}
