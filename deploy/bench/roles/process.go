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
	"time"
)

// endWithin bounds the end of a process that was asked to stop.
const endWithin = 30 * time.Second

// Process is a process that the benchmark started.
type Process struct {
	// Addr is the address that a role printed.
	Addr  string
	cmd   *exec.Cmd
	stdin io.Closer
	// foreign is a program that knows nothing of roles: it is stopped by a signal.
	foreign bool
}

// Start runs this executable in a role and waits until it serves.
func Start(ctx context.Context, role string, args ...string) (*Process, error) {
	cmd, err := command(ctx, role, args)
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: it printed no address: %w", role, err), p.Stop())
	}
	p.Addr = strings.TrimSpace(addr)
	return p, nil
}

func command(ctx context.Context, role string, args []string) (*exec.Cmd, error) {
	file, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	return exec.CommandContext(ctx, file, append([]string{Command, role}, args...)...), nil
}

// Program is a program, and the role in which this executable is the same.
type Program struct {
	// File is the program's file; this executable is used if it is empty.
	File, Role string
	Args       []string
	// Env are additional environment variables.
	Env []string
}

// Launch runs a program. It does not wait for anything. The program's output is dropped,
// its errors are not.
func Launch(ctx context.Context, p Program) (*Process, error) {
	var err error
	cmd := exec.CommandContext(ctx, p.File, p.Args...)
	if p.File == "" {
		if cmd, err = command(ctx, p.Role, p.Args); err != nil {
			return nil, err
		}
	}
	cmd.Env = append(os.Environ(), p.Env...)
	started, err := start(cmd)
	if err != nil {
		return nil, err
	}
	started.foreign = p.File != ""
	return started, nil
}

func start(cmd *exec.Cmd) (*Process, error) {
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = endWithin
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return &Process{cmd: cmd, stdin: stdin}, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop asks the process to end and waits until it has, which it kills after a while.
func (p *Process) Stop() error {
	kill := time.AfterFunc(endWithin, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if p.foreign {
		_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	}
	return errors.Join(p.stdin.Close(), p.cmd.Wait())
}

// Kill ends the process at once.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill process: %w", err)
	}
	_ = p.cmd.Wait() // that it was killed is no news
	return nil
}
