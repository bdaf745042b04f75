package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/scripted"
)

// untilNews is a model that asks for the weather until it hears of no sun.
func untilNews(r scripted.Request) scripted.Reply {
	if r.ToolResult() && !strings.Contains(r.Chat.Last().Text(), "sunny") {
		return scripted.Text("I was told: " + r.Chat.Last().Text())
	}
	return scripted.Tools(scripted.ToolCall{ID: fmt.Sprint("call_", r.Number), Name: "weather", Arguments: `{"city":"Oslo"}`})
}

// frameworkFolder is a folder in which packages of npm and Unloop's SDK can be imported.
func frameworkFolder(t *testing.T, modules string) string {
	t.Helper()
	folder := t.TempDir()
	sdk, err := filepath.Abs("../../schemas/client/js")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(modules)
	if err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(folder, "node_modules")
	link := func(from, to string) {
		if err := os.Symlink(from, filepath.Join(local, to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(local, "@unloop"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		link(filepath.Join(modules, e.Name()), e.Name())
	}
	if err := os.CopyFS(filepath.Join(local, "@unloop", "client"), os.DirFS(sdk)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder, os.DirFS("sdk/frameworks")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// A framework's guard stops the fifth equal call, and the model hears why.
func TestGuardOfAFrameworkStopsATool(t *testing.T) {
	t.Parallel()
	node := unloopSDK{program: need(t, "UNLOOP_TEST_NODE")}
	folder := frameworkFolder(t, need(t, "UNLOOP_TEST_NODE_MODULES"))
	for _, framework := range []string{"langchain", "ai-7", "ai-5", "openai-agents"} {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			model, gateway := serve(t, untilNews), start(t, echo(t))
			out := node.run(t, "OPENAI_BASE_URL="+model.url+"/v1", filepath.Join(folder, "run.mjs"), framework, gateway.URL())
			var got struct {
				Made int
				Text string
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if got.Made != 4 || !strings.Contains(got.Text, "I was told: ") || !strings.Contains(got.Text, "weather") {
				t.Errorf("%+v, want four calls, and the model told why there was no fifth", got)
			}
		})
	}
}
