package inforce

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
	// debounce is how long a file must stay unchanged before it is read: editors
	// write in several steps.
	debounce = 50 * time.Millisecond
	// recheck is how often a file is read without a notification, which network file
	// systems do not send.
	recheck = time.Second
)

// FollowFile puts each new version of the configured file into force until the context
// ends; without a file it returns at once.
func (p *Policies) FollowFile(ctx context.Context) error {
	if p.file == "" {
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch --policies %s: %w", p.file, err)
	}
	defer func() { _ = watcher.Close() }() // it ends with the process anyway
	watchFolders(watcher, p.file)
	p.reread() // it may have changed between loading and watching
	unchanged := time.NewTimer(recheck)
	defer unchanged.Stop()
	for {
		select {
		case <-watcher.Events:
			unchanged.Reset(debounce)
		case <-watcher.Errors: //nolint:errcheck // after lost notifications the timer still finds the change
		case <-unchanged.C:
			watchFolders(watcher, p.file)
			p.reread()
			unchanged.Reset(recheck)
		case <-ctx.Done():
			return nil
		}
	}
}

// reread loads the file if it is not what was read last. A file that is missing or
// empty, for a moment or for good, changes nothing.
func (p *Policies) reread() {
	data, err := os.ReadFile(p.file)
	if err != nil || len(data) == 0 || bytes.Equal(data, p.read) {
		return
	}
	p.read = data
	p.replace(data, sourceFile)
}

// watchFolders watches the folder of a file and that of what it links to: editors and
// Kubernetes put a new file in the old one's place, which ends a watch of the file.
func watchFolders(watcher *fsnotify.Watcher, file string) {
	dirs := []string{filepath.Dir(file)}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		dirs = append(dirs, filepath.Dir(target))
	}
	for _, old := range watcher.WatchList() {
		if !slices.Contains(dirs, old) {
			_ = watcher.Remove(old) // a folder that was removed is not watched any more
		}
	}
	for _, dir := range dirs {
		_ = watcher.Add(dir) // without notifications the timer finds changes
	}
}
