package roles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profileVariable names the folder for profiles to the processes in a role.
const profileVariable = "BENCH_PROFILE"

// StartProfile takes profiles of this process until stop is called, and of the processes
// that are started from now on: DIR/NAME-PID.cpu.pprof, and .allocs.pprof of the
// allocations. Without a folder it does nothing.
func StartProfile(dir, name string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for profiles: %w", err)
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%d", name, os.Getpid()))
	f, err := os.Create(file + ".cpu.pprof")
	if err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, fmt.Errorf("write a profile: %w", err)
	}
	if err := os.Setenv(profileVariable, dir); err != nil {
		return nil, fmt.Errorf("hand on the folder for profiles: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		return errors.Join(f.Close(), writeAllocations(file+".allocs.pprof"))
	}, nil
}

func writeAllocations(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
