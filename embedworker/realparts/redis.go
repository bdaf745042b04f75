package realparts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// redisPackages are Debian 13's Redis 8 and the libraries that it needs, so
// that it runs on any Linux through its own loader.
var redisPackages = []string{
	"redis-server", "redis-tools", "libc6", "libatomic1", "libjemalloc2", "liblzf1", "libssl3t64", "libstdc++6",
	"libsystemd0", "libgcc-s1", "libcap2", "zlib1g", "libzstd1",
}

// RedisServer is a Redis 8 of one test's own, with vector sets.
type RedisServer struct {
	tb      testing.TB
	command []string
	addr    string
	process *exec.Cmd
}

// Redis starts an installed Redis 8, or one unpacked from Debian's packages;
// it is stopped when the test ends.
func Redis(tb testing.TB) *RedisServer {
	tb.Helper()
	s := &RedisServer{tb: tb, command: redisCommand(tb), addr: natstest.FreeAddr(tb)}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// URL is where the server listens.
func (s *RedisServer) URL() string { return "redis://" + s.addr }

// Start starts the server, empty, at the address that it had before.
func (s *RedisServer) Start() {
	s.tb.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.tb.Fatal(err)
	}
	args := append(slices.Clone(s.command[1:]),
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.tb.TempDir())
	cmd := exec.CommandContext(context.WithoutCancel(s.tb.Context()), s.command[0], args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.tb.Fatalf("start Redis: %v", err)
	}
	s.process = cmd
	lines := bufio.NewScanner(out)
	var log strings.Builder
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() {
				for lines.Scan() {
					continue // keeps the pipe from filling up
				}
			}()
			return
		}
		log.WriteString(lines.Text() + "\n")
	}
	s.tb.Fatalf("Redis did not start:\n%s", log.String())
}

// Stop kills the server; its data is lost.
func (s *RedisServer) Stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.process = nil
}

func redisCommand(tb testing.TB) []string {
	tb.Helper()
	if path, err := exec.LookPath("redis-server"); err == nil && isRedis8(path) {
		return []string{path}
	}
	need(tb, "apt-get", "Redis 8")
	need(tb, "dpkg-deb", "Redis 8")
	root := filepath.Join(once(tb, Folder(tb, "redis"), "trixie-"+runtime.GOARCH, fetchRedis), "root")
	for _, pattern := range []string{"usr/lib/*/ld-linux-*.so.*", "usr/lib/ld-linux-*.so.*"} {
		loaders, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(loaders) == 0 {
			continue
		}
		libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
		if err != nil || len(libraries) == 0 {
			continue
		}
		return []string{loaders[0], "--library-path", libraries[0], filepath.Join(root, "usr/bin/redis-server")}
	}
	tb.Fatalf("no loader in %s", root)
	return nil
}

func isRedis8(path string) bool {
	out, err := exec.CommandContext(context.Background(), path, "--version").Output()
	var major int
	_, after, found := strings.Cut(string(out), "v=")
	if _, scanErr := fmt.Sscanf(after, "%d.", &major); scanErr != nil {
		return false
	}
	return err == nil && found && major >= 8
}

// fetchRedis downloads and unpacks the packages with package lists of its own:
// the machine's apt is left as it is.
func fetchRedis(into string) error {
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "debs", "root"} {
		if err := os.MkdirAll(filepath.Join(into, dir), 0o755); err != nil {
			return err
		}
	}
	mirror, err := debianMirror()
	if err != nil {
		return err
	}
	sources := "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + mirror + " trixie main\n"
	err = errors.Join(
		os.WriteFile(filepath.Join(into, "sources.list"), []byte(sources), 0o644),
		os.WriteFile(filepath.Join(into, "status"), nil, 0o644))
	if err != nil {
		return err
	}
	options := []string{
		"-q", "-o", "Dir::Etc::sourcelist=" + into + "/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State=" + into, "-o", "Dir::State::lists=" + into + "/lists", "-o", "Dir::State::status=" + into + "/status",
		"-o", "Dir::Cache=" + into + "/cache", "-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Timeout=60",
	}
	if err := download(into, "apt-get", append(options, "update")...); err != nil {
		return err
	}
	debs := filepath.Join(into, "debs")
	if err := download(debs, "apt-get", append(append(options, "download"), redisPackages...)...); err != nil {
		return err
	}
	return unpack(debs, filepath.Join(into, "root"))
}

// debianMirror is where the machine's own apt gets Debian from.
func debianMirror() (string, error) {
	out, err := exec.CommandContext(context.Background(), "apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirror: %w", err)
	}
	for uri := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(uri, "/debian/") || strings.HasSuffix(uri, "/debian") {
			return uri, nil
		}
	}
	return "", errors.New("this machine's apt has no Debian mirror")
}

func unpack(debs, root string) error {
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil || len(files) < len(redisPackages) {
		return fmt.Errorf("%d packages in %s: %w", len(files), debs, err)
	}
	for _, deb := range files {
		if err := run(debs, "dpkg-deb", "-x", deb, root); err != nil {
			return err
		}
	}
	return nil
}
