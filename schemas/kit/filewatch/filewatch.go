// Package filewatch calls back when the content of a configuration file changes, even if the
// file or a link to it is replaced, as editors and Kubernetes do.
//
// It does not know what a file is for.
package filewatch

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
	// recheck is how often a file is read without a notification: network file systems send
	// none.
	recheck = time.Second
)

// Follow calls changed with each new content of a file until the context ends. known is the
// content that the caller has already read. A missing or empty file is no change. tick, if
// not nil, is called after each look at the file.
func Follow(ctx context.Context, file string, known []byte, changed func([]byte), tick func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", file, err)
	}
	defer func() { _ = watcher.Close() }() // it ends with the process anyway
	look := func() {
		watchFolders(watcher, file)
		if data, err := os.ReadFile(file); err == nil && len(data) > 0 && !bytes.Equal(data, known) {
			known = data
			changed(data)
		}
		if tick != nil {
			tick()
		}
	}
	look() // it may have changed between loading and watching
	unchanged := time.NewTimer(recheck)
	defer unchanged.Stop()
	for {
		select {
		case <-watcher.Events:
			unchanged.Reset(debounce)
		case <-watcher.Errors: //nolint:errcheck // after lost notifications the timer still finds the change
		case <-unchanged.C:
			look()
			unchanged.Reset(recheck)
		case <-ctx.Done():
			return nil
		}
	}
}

// watchFolders watches the folder of a file and of its link target: editors and Kubernetes
// replace the file, which ends a watch of the file itself.
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
