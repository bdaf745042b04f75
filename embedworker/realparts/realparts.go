// Package realparts gives tests the real programs that the embedding worker
// meets in production: ONNX Runtime, the JavaScript tokenizer, Redis 8, and a
// model of MiniLM's shape. Parts are made or installed once in the user's cache
// folder and shared by all packages and runs.
//
// It is imported by tests alone. A part that cannot be had on this machine
// skips the test with the reason.
package realparts

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// making is held while a part is made or installed, so that other tests of this process find it.
// Another process may do the same meanwhile: the result of the one that is faster stays.
var making sync.Mutex

// part returns the path of a part, which a script of the repository installs if need be.
func part(tb testing.TB, args ...string) string {
	tb.Helper()
	making.Lock()
	defer making.Unlock()
	cmd := exec.CommandContext(tb.Context(), filepath.Join(repository(), "deploy", "tools", "tool.sh"), args...)
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		tb.Skipf("install %s: %v\n%s", args[0], err, problem.String())
	}
	return strings.TrimSpace(string(out))
}

// once returns a folder in the user's cache folder. If there is none, fill fills a new one.
func once(tb testing.TB, name string, fill func(into string) error) string {
	tb.Helper()
	making.Lock()
	defer making.Unlock()
	base, err := os.UserCacheDir()
	if err != nil {
		tb.Skipf("no cache folder for %s: %v", name, err)
	}
	dir := filepath.Join(base, "unloop")
	done := filepath.Join(dir, name)
	if _, err := os.Stat(done); err == nil {
		return done
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Skipf("no cache folder for %s: %v", name, err)
	}
	into, err := os.MkdirTemp(dir, ".staging-")
	if err != nil {
		tb.Fatalf("prepare %s: %v", done, err)
	}
	defer func() { _ = os.RemoveAll(into) }()
	if err := fill(into); err != nil {
		tb.Fatalf("make %s: %v", done, err)
	}
	if err := os.Rename(into, done); err != nil && !errors.Is(err, fs.ErrExist) {
		tb.Fatalf("keep %s: %v", done, err)
	}
	return done
}

// MiniLM returns the folder with the tokenizer files of all-MiniLM-L6-v2,
// named by UNLOOP_TEST_MINILM or found beside the repository.
func MiniLM(tb testing.TB) string {
	tb.Helper()
	candidates := []string{os.Getenv("UNLOOP_TEST_MINILM")}
	if root := repository(); root != "" {
		candidates = append(candidates, filepath.Join(root, "..", "shared", "minilm"))
	}
	for _, dir := range candidates {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err == nil {
			return dir
		}
	}
	tb.Skip("no MiniLM tokenizer files: set UNLOOP_TEST_MINILM to a folder with tokenizer.json and vocab.txt")
	return ""
}

// repository returns the folder that holds go.work, or "".
func repository() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}

// Sibling returns a path beside the repository, or skips the test.
func Sibling(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{repository(), ".."}, elem...)...)
	if _, err := os.Stat(path); err != nil || repository() == "" {
		tb.Skipf("%s is not beside the repository", filepath.Join(elem...))
	}
	return path
}
