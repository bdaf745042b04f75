package endpoints

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was loaded")
		panic("unreachable")
	}
}

func TestFilesAndTheirSecretsAreFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "notify.yaml"), filepath.Join(dir, "url")
	text := "endpoints: [{name: chat, slack: {url: {file: " + secret + "}}}]"
	write(t, secret, "https://example.com/one")
	write(t, file, text)
	l := NewLoader(file, nil, System())
	first, err := l.Load()
	if err != nil {
		t.Fatal(err)
	}
	Close(first)
	ctx, cancel := context.WithCancel(context.Background())
	applied, faults, done := make(chan []string, 8), make(chan error, 8), make(chan error, 1)
	go func() {
		done <- l.Follow(ctx, func(all []Built) {
			var names []string
			for _, b := range all {
				names = append(names, b.Name)
			}
			Close(all)
			applied <- names
		}, func(err error) { faults <- err })
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	write(t, file, strings.ReplaceAll(text, "chat", "talk"))
	diff(t, next(t, applied), []string{"talk"})
	write(t, file, "endpoints: [{nam: x}]")
	if err := next(t, faults); !strings.Contains(err.Error(), "line 1") {
		t.Errorf("fault %v", err)
	}
	write(t, file, text)
	diff(t, next(t, applied), []string{"chat"})
	write(t, secret, "https://example.com/two")
	diff(t, next(t, applied), []string{"chat"})
	write(t, secret, "no URL")
	if err := next(t, faults); strings.Contains(err.Error(), "no URL\n") {
		t.Errorf("fault %v", err)
	}
	if len(applied) != 0 {
		t.Error("a bad file was applied")
	}
}
