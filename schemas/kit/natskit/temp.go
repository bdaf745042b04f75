package natskit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// tempPrefix begins the names of temporary folders. A server holds the lock of its folder
// while it runs.
const tempPrefix = "unloop-nats-"

// makeTemp creates a temporary folder and takes its lock. If another process first removes
// the folder as abandoned, makeTemp creates another one.
func makeTemp(below string) (string, *flock.Flock, error) {
	for range 10 {
		dir, err := os.MkdirTemp(below, tempPrefix)
		if err != nil {
			return "", nil, fmt.Errorf("make a temporary folder: %w", err)
		}
		name := filepath.Join(dir, lockFile)
		lock := flock.New(name)
		held, err := lock.TryLock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, errors.Join(fmt.Errorf("lock temporary folder: %w", err), os.RemoveAll(dir))
		}
		if _, err := os.Lstat(name); held && err == nil {
			return dir, lock, nil
		}
		_ = lock.Unlock() // the folder is gone
	}
	return "", nil, errors.New("make a temporary folder: others remove it")
}

// removeAbandoned removes the temporary folders of this user's killed servers: those whose
// lock nobody holds.
func removeAbandoned(below string, log *slog.Logger) {
	dirs, err := filepath.Glob(filepath.Join(below, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if err := removeIfAbandoned(dir); err != nil {
			log.Warn("the temporary folder of a killed server was not removed", "dir", dir, "error", err)
		}
	}
}

func removeIfAbandoned(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUs(info) {
		return nil //nolint:nilerr // gone, or somebody else's
	}
	name := filepath.Join(dir, lockFile)
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // not locked yet, or gone
	}
	lock := flock.New(name, flock.SetFlag(os.O_RDWR)) // it makes no file
	if free, err := lock.TryLock(); err != nil || !free {
		return nil //nolint:nilerr // in use
	}
	return errors.Join(os.RemoveAll(dir), lock.Unlock())
}
