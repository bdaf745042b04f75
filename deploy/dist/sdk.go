package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// sdks is the folder of the SDKs, relative to the repository.
const sdks = "schemas/client"

// writeSDKs writes the packages of the SDKs: one for npm, and a wheel and a source archive for
// PyPI.
func (r *release) writeSDKs() error {
	if err := r.writeNpmSDK(); err != nil {
		return fmt.Errorf("the SDK for JavaScript: %w", err)
	}
	if err := r.writePythonSDK(); err != nil {
		return fmt.Errorf("the SDK for Python: %w", err)
	}
	return nil
}

// writeNpmSDK packs the files that the SDK's package.json lists, with the release's version.
func (r *release) writeNpmSDK() error {
	folder := filepath.Join(r.root, sdks, "js")
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return err
	}
	var listed struct {
		Files []string `json:"files"`
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return fmt.Errorf("package.json: %w", err)
	}
	files := []file{{"package.json", 0o644, []byte(strings.Replace(string(text), `"version": "0.0.0"`, `"version": "`+r.version+`"`, 1))}}
	for _, name := range listed.Files {
		body, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		files = append(files, file{name, 0o644, body})
	}
	return r.write("unloop-client-"+r.version+".tgz", "package", files, writeTarGz)
}

// writePythonSDK writes the SDK in PyPI's formats. A wheel has the hashes of its files in RECORD
// (https://packaging.python.org/specifications/binary-distribution-format/).
func (r *release) writePythonSDK() error {
	folder := filepath.Join(r.root, sdks, "python")
	names, err := filepath.Glob(filepath.Join(folder, "unloop", "*"))
	if err != nil {
		return err
	}
	var modules []file
	for _, name := range names {
		if filepath.Ext(name) != ".py" && filepath.Base(name) != "py.typed" {
			continue // caches
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		modules = append(modules, file{"unloop/" + filepath.Base(name), 0o644, body})
	}
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		return err
	}
	project, err := os.ReadFile(filepath.Join(folder, "pyproject.toml"))
	if err != nil {
		return err
	}
	version := pythonVersion(r.version)
	metadata := fmt.Appendf(nil, "Metadata-Version: 2.4\nName: unloop\nVersion: %s\nSummary: Errors and checks of Unloop, a gateway that stops looping agents.\n"+
		"License-Expression: Apache-2.0\nRequires-Python: >=3.10\nDescription-Content-Type: text/markdown\n\n%s", version, readme)
	info := "unloop-" + version + ".dist-info/"
	wheel := append(append([]file{}, modules...),
		file{info + "METADATA", 0o644, metadata},
		file{info + "WHEEL", 0o644, []byte("Wheel-Version: 1.0\nGenerator: unloop\nRoot-Is-Purelib: true\nTag: py3-none-any\n")})
	wheel = append(wheel, file{info + "RECORD", 0o644, record(wheel, info)})
	if err := r.write("unloop-"+version+"-py3-none-any.whl", "", wheel, writeZip); err != nil {
		return err
	}
	source := append(append([]file{}, modules...),
		file{"PKG-INFO", 0o644, metadata},
		file{"README.md", 0o644, readme},
		file{"pyproject.toml", 0o644, []byte(strings.Replace(string(project), `version = "0.0.0"`, `version = "`+version+`"`, 1))})
	return r.write("unloop-"+version+".tar.gz", "unloop-"+version, source, writeTarGz)
}

// record returns a wheel's RECORD: a line for each file, and one without a hash for itself.
func record(files []file, info string) []byte {
	var lines []byte
	for _, f := range files {
		sum := sha256.Sum256(f.body)
		lines = fmt.Appendf(lines, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.body))
	}
	return fmt.Appendf(lines, "%sRECORD,,\n", info)
}

var prerelease = regexp.MustCompile(`^(\d+\.\d+\.\d+)-(alpha|beta|rc)\.?(\d+)$`)

// pythonVersion returns a semantic version as PyPI writes it
// (https://packaging.python.org/specifications/version-specifiers/): 1.2.3-rc.1 is 1.2.3rc1,
// and other prereleases become local versions.
func pythonVersion(version string) string {
	if m := prerelease.FindStringSubmatch(version); m != nil {
		return m[1] + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[2]] + m[3]
	}
	base, rest, found := strings.Cut(version, "-")
	if !found {
		return version
	}
	return base + ".dev0+" + strings.ToLower(strings.NewReplacer("-", ".", "+", ".").Replace(rest))
}
