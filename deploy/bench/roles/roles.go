// Package roles runs the servers of a benchmark as processes of their own: each is this
// same executable in another role. A role prints its address in its first line of
// output. It runs until its standard input ends, so that it never outlives the benchmark.
package roles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Command is the first argument of an executable in a role.
const Command = "role"

// Role is a server that a process can be.
type Role struct {
	Args int // number of its arguments
	// Start starts it and returns its address. It stops when the context ends; done
	// returns when it has stopped.
	Start func(ctx context.Context, args []string) (addr string, done func() error, err error)
}

// Play runs this process in a role until its standard input ends.
func Play(ctx context.Context, all map[string]Role, args []string) (err error) {
	if len(args) == 0 || all[args[0]].Start == nil || all[args[0]].Args != len(args)-1 {
		return fmt.Errorf("no such role: %q", args)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, err := StartProfile(os.Getenv(profileVariable), args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	addr, done, err := all[args[0]].Start(ctx, args[1:])
	if err != nil {
		return fmt.Errorf("play %s: %w", args[0], err)
	}
	fmt.Fprintln(os.Stdout, addr)
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	return errors.Join(err, done())
}

// Process is a process in a role.
type Process struct {
	Addr  string
	cmd   *exec.Cmd
	stdin io.Closer
}

// Start runs this executable in a role and waits until it serves.
func Start(ctx context.Context, role string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, append([]string{Command, role}, args...)...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p := &Process{cmd: cmd, stdin: stdin}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: it did not say where it is: %w", role, err), p.Stop())
	}
	p.Addr = strings.TrimSpace(addr)
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process in its own time.
func (p *Process) Stop() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// Kill ends the process at once.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill process: %w", err)
	}
	_ = p.cmd.Wait() // that it was killed is no news
	return nil
}
