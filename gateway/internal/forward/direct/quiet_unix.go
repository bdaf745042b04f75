//go:build unix

package direct

import (
	"errors"
	"syscall"
)

// supported says that a connection can be looked at without waiting for it.
const supported = true

// quiet reports whether a connection that nothing is expected from is open and has nothing.
func quiet(fd uintptr) bool {
	var one [1]byte
	_, err := syscall.Read(int(fd), one[:])
	return errors.Is(err, syscall.EAGAIN)
}
