package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// follow returns what is read of a file.
func follow(t *testing.T, file, known string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, done := make(chan string, 16), make(chan error, 1)
	go func() { done <- Follow(ctx, file, []byte(known), func(data []byte) { read <- string(data) }, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return read
}

func want(t *testing.T, read <-chan string, text string) {
	t.Helper()
	select {
	case got := <-read:
		if got != text {
			t.Errorf("read %q, want %q", got, text)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%q was not read", text)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChangesOfAFileAreRead(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "one")
	read := follow(t, file, "zero")
	want(t, read, "one")
	write(t, file, "two")
	want(t, read, "two")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, file+".new", "three")
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	want(t, read, "three")
}

// Kubernetes changes a mounted file by changing a link to a folder.
func TestALinkThatIsChangedIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "file"), name)
	}
	link := func(target string) {
		if err := os.Symlink(target, filepath.Join(dir, "tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	link("1")
	if err := os.Symlink(filepath.Join("data", "file"), filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	read := follow(t, filepath.Join(dir, "file"), "1")
	link("2")
	want(t, read, "2")
}
