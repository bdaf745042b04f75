package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Bifrost's plugin stops the sixth equal prompt, and passes requests while Unloop is away. It is
// compiled with Bifrost's core.
func TestBifrostsPluginStopsALoop(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	folder := t.TempDir()
	for name, from := range map[string]string{"go.mod": "../beside/bifrost", "go.sum": "../beside/bifrost", "plugin.go": "../beside/bifrost", "hook_test.go": "testdata/bifrost"} {
		file := filepath.Join(from, name)
		if from == "testdata/bifrost" {
			file += ".txt"
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", ".")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off", "UNLOOP="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
