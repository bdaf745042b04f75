package roles

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profileVariable hands the folder for profiles on to processes in a role.
const profileVariable = "UNLOOP_BENCH_PROFILE"

// StartProfile takes a CPU profile of this process until stop, and has those
// that are started from now on take theirs: DIR/NAME-PID.pprof. Without a
// folder it does nothing.
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
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", name, os.Getpid())))
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
		return f.Close()
	}, nil
}
