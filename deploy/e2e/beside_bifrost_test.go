package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Bifrost's plugin stops the sixth equal prompt, and passes requests while Unloop is away. It is
// compiled with what Bifrost's documentation says of its core.
func TestBifrostsPluginStopsALoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	folder := t.TempDir()
	files := map[string]string{"plugin.go": "../beside/bifrost/plugin.go", "hook_test.go": "testdata/bifrost/hook_test.go.txt", "core/schemas/schemas.go": "testdata/bifrost/schemas.go"}
	modules := map[string]string{
		"core/go.mod": "module github.com/maximhq/bifrost/core\n\ngo 1.26.0\n",
		"go.mod":      "module unloop\n\ngo 1.26.0\n\nrequire github.com/maximhq/bifrost/core v0.0.0\n\nreplace github.com/maximhq/bifrost/core => ./core\n",
	}
	if err := os.MkdirAll(filepath.Join(folder, "core", "schemas"), 0o700); err != nil {
		t.Fatal(err)
	}
	for to, from := range files {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		modules[to] = string(text)
	}
	for name, text := range modules {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "plugin.go", "hook_test.go") // files that are named are built without their tags
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "UNLOOP="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
