package realparts

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/pull"
)

// Script runs a module script, which can import @huggingface/transformers, with the given
// standard input and returns its standard output.
func Script(tb testing.TB, source string, stdin io.Reader, args ...string) []byte {
	tb.Helper()
	dir := filepath.Dir(part(tb, "transformers"))
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
	return part(tb, "onnxruntime", pull.RuntimeVersion)
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
	from := filepath.Dir(RuntimeArchive(tb))
	dir := once(tb, "onnxruntime-"+runtime.GOOS+"-"+runtime.GOARCH+"-"+pull.RuntimeVersion, func(into string) error {
		return pull.Pull(tb.Context(), pull.Options{Dir: into, Artifacts: library, From: from})
	})
	return pull.Find(dir, runtime.GOOS).Runtime
}
