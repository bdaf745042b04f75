package usage

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Processor returns the processor time of all threads of a process, to the nanosecond. It
// reads the process's clock, whose id is made as by clock_getcpuclockid(3).
func Processor(pid int) (time.Duration, error) {
	const scheduled = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &at); err != nil { //nolint:gosec // process ids have 22 bits
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}
