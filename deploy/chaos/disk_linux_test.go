package chaos

import (
	"context"
	"fmt"
	"syscall"
)

// wholeDisk is the size of the disk. Memory is used for stored bytes only.
const wholeDisk = "size=2g"

// mountDisk mounts a disk at a folder.
func mountDisk(dir string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, wholeDisk) }

func unmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// diskFull shrinks the disk of NATS to its used size.
func diskFull(_ context.Context, c *cluster) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(c.disk, &st); err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	return syscall.Mount("tmpfs", c.disk, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", (st.Blocks-st.Bfree)*uint64(st.Bsize))) //nolint:gosec // the size of a block is positive
}

func diskFree(_ context.Context, c *cluster) error {
	return syscall.Mount("tmpfs", c.disk, "tmpfs", syscall.MS_REMOUNT, wholeDisk)
}
