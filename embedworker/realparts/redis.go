package realparts

import (
	"bufio"
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// RedisServer is a Redis 8 of one test's own, with vector sets.
type RedisServer struct {
	tb      testing.TB
	command string
	addr    string
	process *exec.Cmd
}

// Redis starts a Redis 8, which is stopped when the test ends.
func Redis(tb testing.TB) *RedisServer {
	tb.Helper()
	s := &RedisServer{tb: tb, command: part(tb, "redis-8"), addr: natstest.FreeAddr(tb)}
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
	cmd := exec.CommandContext(context.WithoutCancel(s.tb.Context()), s.command,
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.tb.TempDir())
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
