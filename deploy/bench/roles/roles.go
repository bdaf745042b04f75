// Package roles runs the servers of a benchmark as processes of their own: each is this
// same executable in another role. A role prints its address in its first line of
// output. It runs until its standard input ends, so that it never outlives the benchmark.
package roles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Command is the first argument of an executable in a role.
const Command = "role"

// AnyArgs is the number of arguments of a role that takes any.
const AnyArgs = -1

// Role is a server that a process can be.
type Role struct {
	Args int // number of its arguments
	// Start starts it and returns its address. It stops when the context ends; done
	// returns when it has stopped.
	Start func(ctx context.Context, args []string) (addr string, done func() error, err error)
}

// Play runs this process in a role until its standard input ends.
func Play(ctx context.Context, all map[string]Role, args []string) (err error) {
	if len(args) == 0 || all[args[0]].Start == nil || all[args[0]].Args != len(args)-1 && all[args[0]].Args != AnyArgs {
		return fmt.Errorf("no such role: %q", args)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	name := args[0]
	if all[name].Args == AnyArgs && len(args) > 1 {
		name += "-" + args[1]
	}
	stop, err := StartProfile(os.Getenv(profileVariable), name)
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
