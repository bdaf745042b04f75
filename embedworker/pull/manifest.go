// Package pull installs what the ONNX embedder needs and this repository does
// not carry: ONNX Runtime for this platform, and all-MiniLM-L6-v2 at a pinned
// revision. Every file is checked against its SHA-256 before it is moved to its
// place, and nothing that fails the check stays behind.
//
// It knows files and servers; it loads neither runtime nor model.
package pull

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Artifact is one file to install.
type Artifact struct {
	// Path is where it goes, below the folder of the installation.
	Path string
	// URL is its public address. A mirror has it under the last part of that.
	URL string
	// SHA256 and Size are of what is downloaded.
	SHA256 string
	Size   int64
	// Entry is the file inside a downloaded .tgz that is installed, and
	// EntrySHA256 its checksum; "" where the download itself is.
	Entry, EntrySHA256 string
}

// sum is the checksum of the installed files.
func (a Artifact) sum() string {
	if a.Entry != "" {
		return a.EntrySHA256
	}
	return a.SHA256
}

// RuntimeVersion is the ONNX Runtime that is installed. The worker needs its
// API version (24) or a later one.
const RuntimeVersion = "1.27.0"

// ErrPlatform means that no ONNX Runtime is published for a platform.
var ErrPlatform = errors.New("no ONNX Runtime for this platform")

// modelBase is the model at the revision of the checksums below.
const modelBase = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/1110a243fdf4706b3f48f1d95db1a4f5529b4d41/"

const (
	modelFolder   = "all-MiniLM-L6-v2"
	runtimeFolder = "onnxruntime-" + RuntimeVersion
)

// libraries are the runtime's libraries inside its npm package, by GOOS/GOARCH.
var libraries = map[string]struct{ entry, sum string }{
	"linux/amd64":   {"linux/x64/libonnxruntime.so.1", "d8aff4aa8abee8fb2abb2f2f2459ffc94461e781e41b9f7c072829dd0d470221"},
	"linux/arm64":   {"linux/arm64/libonnxruntime.so.1", "c36bc200e7e6c093b8abb0b34590fbdd8c52fd3fb5e33795b9523ffdde2fce0f"},
	"darwin/arm64":  {"darwin/arm64/libonnxruntime.1.27.0.dylib", "89f692a3a1a224e4ad0b796b0e7c0bd81113b0741bfe84211eceef14d05a9e59"},
	"windows/amd64": {"win32/x64/onnxruntime.dll", "273f9ef9cf755c6a0f342226a80448156c10ceb74db2ae8c8370dc98e75af0eb"},
	"windows/arm64": {"win32/arm64/onnxruntime.dll", "908ce63e73f375e90daabe24c52486b42392c19df3d63973a26f871cfeab5453"},
}

// Artifacts returns the artifacts for a platform, or ErrPlatform.
func Artifacts(goos, goarch string) ([]Artifact, error) {
	library, ok := libraries[goos+"/"+goarch]
	if !ok {
		return nil, fmt.Errorf("%w: %s/%s", ErrPlatform, goos, goarch)
	}
	return []Artifact{
		{
			Path: filepath.Join(modelFolder, "tokenizer.json"), URL: modelBase + "tokenizer.json", Size: 466247,
			SHA256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
		},
		{
			Path: filepath.Join(modelFolder, "model.onnx"), URL: modelBase + "onnx/model.onnx", Size: 90405214,
			SHA256: "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
		},
		{
			Path:   filepath.Join(runtimeFolder, libraryName(goos)),
			URL:    "https://registry.npmjs.org/onnxruntime-node/-/onnxruntime-node-" + RuntimeVersion + ".tgz",
			SHA256: "c3779c01c59832f8c03e2c392ac3af10bf08579f1822e8b1c63cc451edb302a2", Size: 100893124,
			Entry: "package/bin/napi-v6/" + library.entry, EntrySHA256: library.sum,
		},
	}, nil
}

func libraryName(goos string) string {
	switch goos {
	case "darwin":
		return "libonnxruntime.dylib"
	case "windows":
		return "onnxruntime.dll"
	}
	return "libonnxruntime.so"
}

// DefaultDir is the folder of the installation: $XDG_DATA_HOME/unloop, or
// ~/.local/share/unloop.
func DefaultDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "unloop"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the user's data folder: %w", err)
	}
	return filepath.Join(home, ".local", "share", "unloop"), nil
}

// Installed are the parts that an installation has; "" for one that it lacks.
type Installed struct {
	Model   string // folder of model.onnx and tokenizer.json
	Runtime string // ONNX Runtime's shared library
}

// Find looks for the parts in a folder. What is there was checked when it was
// installed.
func Find(dir, goos string) Installed {
	var found Installed
	if model := filepath.Join(dir, modelFolder); isFile(filepath.Join(model, "model.onnx")) {
		found.Model = model
	}
	if library := filepath.Join(dir, runtimeFolder, libraryName(goos)); isFile(library) {
		found.Runtime = library
	}
	return found
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
