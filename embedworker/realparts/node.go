package realparts

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// lockFiles pins the reference's packages.
//
//go:embed node/package.json node/package-lock.json
var lockFiles embed.FS

// Transformers returns a folder in which Node finds the JavaScript package
// @huggingface/transformers.
func Transformers(tb testing.TB) string {
	tb.Helper()
	need(tb, "node", "the comparison with @huggingface/transformers")
	need(tb, "npm", "the comparison with @huggingface/transformers")
	pinned, err := lockFiles.ReadFile("node/package-lock.json")
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(pinned)
	return once(tb, Folder(tb, "node"), hex.EncodeToString(sum[:8]), func(into string) error {
		for _, name := range []string{"package.json", "package-lock.json"} {
			data, err := lockFiles.ReadFile("node/" + name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(into, name), data, 0o644); err != nil {
				return err
			}
		}
		return run(into, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	})
}

// Script runs a module script in the folder of Transformers with the given
// standard input and returns its standard output.
func Script(tb testing.TB, source string, stdin io.Reader, args ...string) []byte {
	tb.Helper()
	dir := Transformers(tb)
	cmd := exec.CommandContext(tb.Context(), "node", append([]string{"--input-type=module", "--eval", source, "--"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, stdin
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("run node: %v\n%s", err, problem.String())
	}
	return out
}

// The package that carries ONNX Runtime's libraries, and its SHA-256.
const (
	runtimePackage = "onnxruntime-node@1.27.0"
	runtimeSum     = "c3779c01c59832f8c03e2c392ac3af10bf08579f1822e8b1c63cc451edb302a2"
)

// RuntimeArchive returns the npm package with ONNX Runtime's libraries.
func RuntimeArchive(tb testing.TB) string {
	tb.Helper()
	need(tb, "npm", "ONNX Runtime")
	dir := once(tb, Folder(tb, "onnxruntime"), runtimePackage, func(into string) error {
		if err := run(into, "npm", "pack", runtimePackage, "--silent"); err != nil {
			return err
		}
		archive := archiveIn(into)
		if sum, err := fileSum(archive); err != nil || sum != runtimeSum {
			return errors.Join(err, fmt.Errorf("SHA-256 of %s is %s", archive, sum))
		}
		return nil
	})
	return archiveIn(dir)
}

func archiveIn(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(runtimePackage, "@", "-")+".tgz")
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ONNXRuntime returns the path of ONNX Runtime's library for this machine, or
// what ONNXRUNTIME_LIB names.
func ONNXRuntime(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("ONNXRUNTIME_LIB"); path != "" {
		return path
	}
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || !ok {
		tb.Skipf("no ONNX Runtime for %s/%s: set ONNXRUNTIME_LIB", runtime.GOOS, runtime.GOARCH)
	}
	dir := once(tb, Folder(tb, "onnxruntime-"+arch), "1.27.0", func(into string) error {
		entry := "package/bin/napi-v6/linux/" + arch + "/libonnxruntime.so.1"
		return extract(RuntimeArchive(tb), entry, filepath.Join(into, "libonnxruntime.so.1"))
	})
	return filepath.Join(dir, "libonnxruntime.so.1")
}

func extract(archive, entry, path string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if err != nil {
			return fmt.Errorf("find %s: %w", entry, err)
		}
		if header.Name != entry {
			continue
		}
		out, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, files) //nolint:gosec // the archive's checksum is known
		return errors.Join(err, out.Close())
	}
}
