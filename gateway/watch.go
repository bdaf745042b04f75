package gateway

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a file must be left alone before it is read: editors
	// write in several steps.
	settle = 50 * time.Millisecond
	// recheck is how often a file is looked at without a notification, which
	// network file systems do not send.
	recheck = time.Second
)

// watchFile follows the bundle's file until the context ends. It watches
// folders and not the file, because editors and Kubernetes put a new file in
// the old one's place.
func (b *bundles) watchFile(ctx context.Context) error {
	if b.file == "" {
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch --policies %s: %w", b.file, err)
	}
	defer func() { _ = watcher.Close() }() // it ends with the process anyway
	f := &watchedFile{path: b.file, watcher: watcher}
	f.aim()
	b.reread() // it may have changed between loading and watching
	f.follow(ctx, func() {
		f.aim()
		b.reread()
	})
	return nil
}

// reread loads the file if it is not what was read last. A file that is away or
// empty, for a moment or for good, changes nothing.
func (b *bundles) reread() {
	data, err := os.ReadFile(b.file)
	if err != nil || len(data) == 0 || bytes.Equal(data, b.read) {
		return
	}
	b.read = data
	b.replace(data, sourceFile)
}

// watchedFile is a file that may be replaced, and reached through links.
type watchedFile struct {
	path    string
	watcher *fsnotify.Watcher
}

// aim watches the folder of the file and that of what it links to.
func (f *watchedFile) aim() {
	dirs := []string{filepath.Dir(f.path)}
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		dirs = append(dirs, filepath.Dir(target))
	}
	for _, old := range f.watcher.WatchList() {
		if !slices.Contains(dirs, old) {
			_ = f.watcher.Remove(old) // a folder that is gone is not watched any more
		}
	}
	for _, dir := range dirs {
		_ = f.watcher.Add(dir) // without notifications, recheck finds changes
	}
}

// follow calls changed after each change, when it has settled.
func (f *watchedFile) follow(ctx context.Context, changed func()) {
	settled := time.NewTimer(recheck)
	defer settled.Stop()
	for {
		select {
		case <-f.watcher.Events:
			settled.Reset(settle)
		case <-f.watcher.Errors: //nolint:errcheck // lost notifications: recheck finds what they were about
		case <-settled.C:
			changed()
			settled.Reset(recheck)
		case <-ctx.Done():
			return
		}
	}
}
