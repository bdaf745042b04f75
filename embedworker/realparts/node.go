package realparts

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/pull"
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
		files, err := fs.Sub(lockFiles, "node")
		if err == nil {
			err = os.CopyFS(into, files)
		}
		if err != nil {
			return err
		}
		return download(into, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
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

// RuntimeArchive returns the npm package with ONNX Runtime's libraries.
func RuntimeArchive(tb testing.TB) string {
	tb.Helper()
	need(tb, "npm", "ONNX Runtime")
	const name = "onnxruntime-node@" + pull.RuntimeVersion
	dir := once(tb, Folder(tb, "onnxruntime"), name, func(into string) error {
		return download(into, "npm", "pack", name, "--silent")
	})
	return filepath.Join(dir, strings.ReplaceAll(name, "@", "-")+".tgz")
}

// ONNXRuntime returns the path of ONNX Runtime's library for this machine, or
// what ONNXRUNTIME_LIB names.
func ONNXRuntime(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("ONNXRUNTIME_LIB"); path != "" {
		return path
	}
	all, err := pull.Artifacts(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		tb.Skipf("%v: set ONNXRUNTIME_LIB", err)
	}
	library := slices.DeleteFunc(all, func(a pull.Artifact) bool { return a.Entry == "" })
	dir := once(tb, Folder(tb, "onnxruntime-"+runtime.GOOS+"-"+runtime.GOARCH), pull.RuntimeVersion, func(into string) error {
		return pull.Pull(tb.Context(), pull.Options{Dir: into, Artifacts: library, From: filepath.Dir(RuntimeArchive(tb))})
	})
	return pull.Find(dir, runtime.GOOS).Runtime
}
