// Package realparts gives tests the real programs that the embedding worker
// meets in production: ONNX Runtime, the JavaScript tokenizer, Redis 8, and a
// model of MiniLM's shape. Parts are fetched once into the user's cache folder
// and shared by all packages and runs.
//
// It is imported by tests alone. A part that cannot be had on this machine
// skips the test with the reason; a part that should be there and is broken
// fails it.
package realparts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Folder returns the cache folder of a part, made if need be.
func Folder(tb testing.TB, part string) string {
	tb.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		tb.Skipf("no cache folder for %s: %v", part, err)
	}
	dir := filepath.Join(base, "unloop", part)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Skipf("no cache folder for %s: %v", part, err)
	}
	return dir
}

// once runs fetch into a fresh folder, moves the result to dir/name and
// returns that path. Several test processes may ask at the same time: one
// fetches and the others wait.
func once(tb testing.TB, dir, name string, fetch func(into string) error) string {
	tb.Helper()
	done := filepath.Join(dir, name)
	if _, err := os.Stat(done); err == nil {
		return done
	}
	unlock := lock(tb, filepath.Join(dir, ".lock"))
	defer unlock()
	if _, err := os.Stat(done); err == nil {
		return done
	}
	into, err := os.MkdirTemp(dir, "fetching-")
	if err != nil {
		tb.Fatalf("prepare %s: %v", done, err)
	}
	defer func() { _ = os.RemoveAll(into) }()
	if err := fetch(into); err != nil {
		tb.Fatalf("fetch %s: %v", done, err)
	}
	if err := os.Rename(into, done); err != nil {
		tb.Fatalf("keep %s: %v", done, err)
	}
	return done
}

func lock(tb testing.TB, path string) (unlock func()) {
	tb.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		tb.Fatalf("open %s: %v", path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		tb.Fatalf("lock %s: %v", path, err)
	}
	return func() { _ = f.Close() }
}

const (
	// fetchTime bounds one try of a download with everything that follows it.
	fetchTime = 8 * time.Minute
	// fetchTries bounds how often a download is tried, fetchPause is the pause before the
	// second try.
	fetchTries = 3
	fetchPause = 10 * time.Second
)

// download is run for a program that downloads, which is tried again where it fails.
func download(dir, program string, args ...string) error {
	var faults []error
	for try := range fetchTries {
		<-time.After(time.Duration(try) * fetchPause)
		err := run(dir, program, args...)
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("try %d of %d: %s: %w", try+1, fetchTries, program, err))
	}
	return errors.Join(faults...)
}

// run executes a program in dir; its output is part of the error.
func run(dir, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}

// need skips the test where a program is not installed.
func need(tb testing.TB, program, purpose string) {
	tb.Helper()
	if _, err := exec.LookPath(program); err != nil {
		tb.Skipf("%s is not installed: %s is left out", program, purpose)
	}
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
