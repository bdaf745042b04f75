package scan

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew")

// golden is the page of a report on sessions of several agents, as people get it.
const golden = "testdata/report.html"

// TestGoldenPage compares the page with the one in testdata, which was looked at in a browser.
// Write it anew with -update.
func TestGoldenPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"claude", "codex", "gemini", "opencode", "copilot"} {
		recordings[name].write(t, filepath.Join(folder, recordings[name].path))
	}
	private := strings.NewReplacer("Make the tests pass.", "Make the tests of ada@example.org pass, in /home/ada/shop. The key is sk-ant-api03-"+strings.Repeat("Ab3x", 12)+".", "msg_", "other_", "npm test", "cd /home/ada/shop && npm test -- --reporter=verbose cart.test.ts", "1 failed: cart", strings.Repeat("FAIL cart.test.ts > adds taxes to each order\\n", 6))

	writeFile(t, filepath.Join(folder, ".claude/projects/-home-ada-shop/77aa.jsonl"), private.Replace(strings.ReplaceAll(strings.Join(claudeLines(), "\n"), "0d1c", "77aa")))
	writeFile(t, filepath.Join(folder, ".claude/projects/-home-ada-shop/90ff.jsonl"), longSession("90ff", 12, 200))
	var page bytes.Buffer
	if err := WritePage(&page, at(t, folder), Masking{}); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, page.Bytes(), 0o644); err != nil { //nolint:gosec // it is in the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), page.String()); diff != "" {
		t.Errorf("the page (-golden +got):\n%s", diff)
	}
	for _, private := range []string{"ada@", "/home/ada", "-home-ada", "Ab3xAb3x"} {
		if bytes.Contains(want, []byte(private)) {
			t.Errorf("%q is on the page", private)
		}
	}
}
