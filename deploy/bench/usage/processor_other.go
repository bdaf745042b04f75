//go:build !linux

package usage

import "time"

// Processor returns 0: only Linux reports it for other processes.
func Processor(int) (time.Duration, error) { return 0, nil }
