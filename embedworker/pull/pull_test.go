package pull_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/unloop/unloop/embedworker/pull"
)

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

func artifact(path, url string, data []byte) pull.Artifact {
	return pull.Artifact{Path: path, URL: url, SHA256: sum(data), Size: int64(len(data))}
}

// mirror serves a folder with ranges.
func mirror(t *testing.T, files map[string][]byte) (dir, url string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return dir, server.URL
}

// contents lists all files of an installation.
func contents(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			paths = append(paths, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

var data = []byte(strings.Repeat("what a model holds ", 5000))

func TestFilesComeFromMirrorsAndFolders(t *testing.T) {
	t.Parallel()
	dir, url := mirror(t, map[string][]byte{"model.onnx": data})
	for name, from := range map[string]string{"a folder": dir, "a URL": url, "a URL with a slash": url + "/"} {
		target := t.TempDir()
		var last pull.Progress
		o := pull.Options{
			Dir: target, From: from, Progress: func(p pull.Progress) { last = p },
			Artifacts: []pull.Artifact{artifact("minilm/model.onnx", "https://example.invalid/rev/onnx/model.onnx", data)},
		}
		for range 2 { // the second finds it in its place
			if err := pull.Pull(t.Context(), o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !last.Ready || last.Done != int64(len(data)) || last.Name != "model.onnx" {
				t.Errorf("%s: progress ended at %+v", name, last)
			}
			if got := contents(t, target); len(got) != 1 || got[0] != filepath.Join("minilm", "model.onnx") {
				t.Errorf("%s: installed %v", name, got)
			}
		}
		if got, err := os.ReadFile(filepath.Join(target, "minilm", "model.onnx")); err != nil || sum(got) != sum(data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestAMismatchLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	wrong := append([]byte("X"), data[1:]...)
	dir, url := mirror(t, map[string][]byte{"model.onnx": wrong, "longer.onnx": append(data, 'x')})
	for _, from := range []string{dir, url} {
		for _, name := range []string{"model.onnx", "longer.onnx"} {
			target := t.TempDir()
			a := artifact("minilm/model.onnx", "https://example.invalid/"+name, data)
			err := pull.Pull(t.Context(), pull.Options{Dir: target, From: from, Artifacts: []pull.Artifact{a}})
			if !errors.Is(err, pull.ErrChecksum) {
				t.Errorf("%s from %s: got %v, want ErrChecksum", name, from, err)
			}
			if got := contents(t, target); len(got) != 0 {
				t.Errorf("%s from %s: left %v", name, from, got)
			}
		}
	}
}

func TestABadFileInPlaceIsReplaced(t *testing.T) {
	t.Parallel()
	dir, _ := mirror(t, map[string][]byte{"model.onnx": data})
	target := t.TempDir()
	path := filepath.Join(target, "model.onnx")
	if err := os.WriteFile(path, []byte("half a mod"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := artifact("model.onnx", "https://example.invalid/model.onnx", data)
	if err := pull.Pull(t.Context(), pull.Options{Dir: target, From: dir, Artifacts: []pull.Artifact{a}}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || sum(got) != sum(data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestLostConnectionsAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	var ranged atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			ranged.Add(1)
		}
		if ranged.Load() < 3 {
			w = &cut{ResponseWriter: w, left: 20000}
		}
		http.ServeContent(w, r, "model.onnx", time.Time{}, strings.NewReader(string(data)))
	}))
	t.Cleanup(server.Close)
	target := t.TempDir()
	o := pull.Options{Dir: target, Artifacts: []pull.Artifact{artifact("model.onnx", server.URL+"/model.onnx", data)}}
	if err := pull.Pull(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if ranged.Load() < 3 {
		t.Errorf("%d requests went on where the one before ended", ranged.Load())
	}
}

// cut ends the connection after some bytes.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

func TestAnInterruptedPullIsContinuedByTheNext(t *testing.T) {
	t.Parallel()
	_, url := mirror(t, map[string][]byte{"model.onnx": data})
	target := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	o := pull.Options{
		Dir: target, From: url, Artifacts: []pull.Artifact{artifact("model.onnx", "https://example.invalid/model.onnx", data)},
		Progress: func(p pull.Progress) {
			if p.Done > 0 {
				cancel()
			}
		},
	}
	if err := pull.Pull(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's error", err)
	}
	if got := contents(t, target); len(got) != 1 || !strings.HasSuffix(got[0], ".part") {
		t.Fatalf("left %v, want the part that came", got)
	}
	least := int64(-1)
	o.Progress = func(p pull.Progress) {
		if least < 0 {
			least = p.Done
		}
	}
	if err := pull.Pull(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if least <= 1 {
		t.Errorf("began anew, at %d bytes", least)
	}
}

func TestServersThatHaveNothingAreReported(t *testing.T) {
	t.Parallel()
	dir, url := mirror(t, nil)
	for _, from := range []string{dir, url, "http://127.0.0.1:1", "http://%zz"} {
		a := artifact("model.onnx", "https://example.invalid/model.onnx", data)
		target := t.TempDir()
		if err := pull.Pull(t.Context(), pull.Options{Dir: target, From: from, Artifacts: []pull.Artifact{a}}); !errors.Is(err, pull.ErrDownload) {
			t.Errorf("from %s: got %v, want ErrDownload", from, err)
		}
		if got := contents(t, target); len(got) != 0 {
			t.Errorf("from %s: left %v", from, got)
		}
	}
}

func TestTheManifestCoversThePlatforms(t *testing.T) {
	t.Parallel()
	for _, platform := range [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		artifacts, err := pull.Artifacts(platform[0], platform[1])
		if err != nil || len(artifacts) != 3 {
			t.Errorf("%v: %d files, %v", platform, len(artifacts), err)
		}
	}
	if _, err := pull.Artifacts("plan9", "mips"); !errors.Is(err, pull.ErrPlatform) {
		t.Errorf("got %v, want ErrPlatform", err)
	}
	if found := pull.Find(t.TempDir(), "linux"); found != (pull.Installed{}) {
		t.Errorf("found %+v in an empty folder", found)
	}
}
