//go:build linux || darwin

package doctor

import "golang.org/x/sys/unix"

// freeBytes returns the space on a folder's disk that this user can still fill, and whether
// it is known.
func freeBytes(dir string) (uint64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true //nolint:gosec // the size of a block is positive
}
