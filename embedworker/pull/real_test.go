//go:build cgo

package pull_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/embed"
	"github.com/unloop/unloop/embedworker/pull"
	"github.com/unloop/unloop/embedworker/realparts"
)

// TestWhatIsPulledRuns installs the real runtime and a model of the real one's
// shape from a local server, and embeds with them.
func TestWhatIsPulledRuns(t *testing.T) {
	t.Parallel()
	artifacts, err := pull.Artifacts(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}
	model := realparts.MiniLMModel(t, false)
	files := map[string]string{
		"model.onnx": filepath.Join(model, "model.onnx"), "tokenizer.json": filepath.Join(model, "tokenizer.json"),
		"onnxruntime-node-" + pull.RuntimeVersion + ".tgz": realparts.RuntimeArchive(t),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, files[filepath.Base(r.URL.Path)])
	}))
	t.Cleanup(server.Close)
	for i, a := range artifacts {
		if a.Entry != "" {
			continue // the runtime is the real one: its checksums hold
		}
		content, err := os.ReadFile(files[filepath.Base(a.Path)])
		if err != nil {
			t.Fatal(err)
		}
		artifacts[i].SHA256, artifacts[i].Size = sum(content), int64(len(content))
	}
	dir := t.TempDir()
	if err := pull.Pull(t.Context(), pull.Options{Dir: dir, From: server.URL, Artifacts: artifacts}); err != nil {
		t.Fatal(err)
	}
	found := pull.Find(dir, runtime.GOOS)
	e, err := embed.Open(t.Context(), embed.Config{
		Kind: embed.KindONNX, Model: found.Model, Runtime: found.Runtime, Limits: embed.DefaultLimits(),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if v, err := e.Embed(t.Context(), "what was pulled runs"); err != nil || len(v[0]) != 384 {
		t.Errorf("got %v, %v", v, err)
	}
}
