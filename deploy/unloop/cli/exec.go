package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/unloop/unloop/schemas/kit/service"
)

type execCmd struct {
	client
	Gateway      string        `short:"g" placeholder:"URL" help:"Gateway to use. Default: the one at ${default_gateway} if it is running and no flag or variable names an upstream, else a gateway started for this command."`
	Fresh        bool          `env:"-" short:"f" help:"Start a gateway for this command even if one is running."`
	Upstream     service.Pairs `short:"u" placeholder:"NAME=URL" help:"Upstream of the started gateway, by name. Repeatable; one value may hold several. Default: the agent's base URL variables, else the providers' public addresses."`
	Policies     string        `short:"p" type:"path" placeholder:"FILE" help:"Policy bundle of the started gateway."`
	DataDir      string        `short:"d" default:"memory" placeholder:"DIR" help:"Storage folder of the started gateway; \"memory\" stores nothing on disk."`
	CheckTimeout time.Duration `default:"50ms" help:"How long a request waits for a decision of the started gateway."`
	Reject       string        `default:"auto" placeholder:"auto|synthetic|STATUS" help:"Answer of the started gateway to rejected requests: auto (whatever ends the client), synthetic (a message in place of the model's), or an error with this status."`
	LogFormat    string        `default:"text" enum:"text,json" help:"Format of the log: text or json."`
	LogLevel     string        `default:"error" enum:"debug,info,warn,error" help:"Lowest level of log lines, which appear among the command's output."`
	Command      []string      `arg:"" passthrough:"" help:"Command and its arguments, after --."`
}

// exitCode is an error that only sets the exit code, after everything was printed.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Exit codes that shells use (POSIX, Shell Command Language, 2.8.2).
const (
	exitUsage         = 2
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128
)

// Run runs the command behind a gateway and returns its exit code.
func (c *execCmd) Run(ctx context.Context, std streams) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		fmt.Fprintln(std.err, "unloop: name a command: unloop exec -- CMD ARG…")
		return exitCode(exitUsage)
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		fmt.Fprintln(std.err, "unloop:", err)
		if errors.Is(err, fs.ErrPermission) {
			return exitCode(exitNotExecutable)
		}
		return exitCode(exitNotFound)
	}
	guard, err := c.guard(ctx, os.Environ(), std)
	if err != nil {
		return err
	}
	if err := guard.measure(ctx); err != nil {
		return errors.Join(err, guard.stop())
	}
	// From here on signals go to the command, and exec ends with it.
	ctx = context.WithoutCancel(ctx)
	defer guard.close(ctx, command, std)
	args, environ := lead(command, environ(os.Environ(), guard.meter.URL()), guard.meter.URL())
	return runCommand(ctx, path, args, environ, std)
}

// runCommand runs a command with the streams of this process, forwards signals to it,
// and returns its exit code unless that is 0.
func runCommand(ctx context.Context, path string, args, environ []string, std streams) error {
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Env = args, environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, std.out, std.err
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(std.err, "unloop: run %s: %v\n", args[0], err)
		return exitCode(exitNotExecutable)
	}
	done := make(chan struct{})
	defer close(done)
	go passOn(signals, cmd.Process, done)
	err := cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	if code := codeOf(cmd.ProcessState); code != 0 {
		return exitCode(code)
	}
	return nil
}

// passOn forwards signals to a process until done is closed.
func passOn(signals <-chan os.Signal, to *os.Process, done <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				_ = to.Signal(s) // it may have ended
			}
		case <-done:
			return
		}
	}
}
