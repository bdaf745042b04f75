package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// claudeSession writes a session of Claude Code in which a command fails eight times.
func claudeSession(t *testing.T, path string) {
	t.Helper()
	var out strings.Builder
	line := func(n int, kind, message string) {
		fmt.Fprintf(&out, `{"parentUuid":null,"type":%q,"message":%s,"timestamp":"2026-03-02T09:%02d:00Z","sessionId":"s1"}`+"\n", kind, message, n)
	}
	line(0, "user", `{"role":"user","content":"Make the tests pass. Mail ada@example.org."}`)
	for i := range 8 {
		line(2*i+1, "assistant", fmt.Sprintf(`{"id":"m%d","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"npm test"}}],"usage":{"input_tokens":100000,"output_tokens":20}}`, i, i))
		line(2*i+2, "user", fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"1 failed","is_error":true}]}`, i))
	}
	line(17, "assistant", `{"id":"end","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"I give up."}]}`)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestScanTellsALoopInTenLines(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	claudeSession(t, filepath.Join(folder, "s1.jsonl"))
	page := filepath.Join(t.TempDir(), "report.html")
	out := succeed(t, "scan", "--html", page, folder)
	if n := strings.Count(out, "\n"); n > 10 {
		t.Errorf("%d lines", n)
	}
	for _, want := range []string{
		"1 session (Claude Code 1), 2026-03-02", "1 session (100 %) went round in circles: 6 requests", "$1.50 of $2.40", "10 min",
		"hinted in 1 of them and stopped 1", "1. `npm test`: ", "hinted at request 4; stopped at request 6", "Guard Claude Code from now on: unloop exec -- claude",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "npm test") || strings.Contains(string(text), "ada@") {
		t.Errorf("the page: %v", err)
	}
	var report struct {
		Sessions int
		Loops    []struct {
			Session string
			At      struct{ Hinted, Stopped int } `json:"at_request"`
		}
	}
	if err := json.Unmarshal([]byte(succeed(t, "scan", "--json", folder)), &report); err != nil || len(report.Loops) != 1 || report.Loops[0].At.Stopped != 6 {
		t.Fatalf("%+v, %v", report, err)
	}
	session := report.Loops[0].Session
	succeed(t, "scan", "label", folder, session, "stuck", "--stale", "2")
	scores := succeed(t, "replay", "--labels", filepath.Join(folder, "unloop-labels.jsonl"), filepath.Join(folder, "s1.jsonl"))
	if !strings.Contains(scores, "1 of 1") || !strings.Contains(scores, "1.00 (0.21–1.00)") {
		t.Errorf("scores:\n%s", scores)
	}
	tuned := filepath.Join(t.TempDir(), "tuned.yaml")
	if out := succeed(t, "policy", "tune", "--out", tuned, folder); !strings.Contains(out, "On the other half of the sessions") {
		t.Errorf("tuned:\n%s", out)
	}
	if out := succeed(t, "policy", "check", tuned); !strings.Contains(out, "valid") {
		t.Errorf("the tuned bundle: %s", out)
	}
	lax := filepath.Join(t.TempDir(), "lax.yaml")
	if err := os.WriteFile(lax, []byte("bundle_version: 1\npolicies: [{id: p, spec: {cycle: {}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "scan", "--beside", lax, folder); !strings.Contains(out, "stops at 6") || !strings.Contains(out, session) {
		t.Errorf("beside another bundle:\n%s", out)
	}
}

// A scan reads the home folder, and writes nothing but the page that it is asked for.
func TestScanWritesNothingButThePage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	claudeSession(t, filepath.Join(folder, "in/s1.jsonl"))
	before := tree(t, folder)
	succeed(t, "scan", filepath.Join(folder, "in"))
	if diff := cmp.Diff(before, tree(t, folder)); diff != "" {
		t.Errorf("without --html (-before +after):\n%s", diff)
	}
	page := filepath.Join(folder, "report.html")
	succeed(t, "scan", "--html", page, filepath.Join(folder, "in"))
	after := tree(t, folder)
	delete(after, "report.html")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("with --html (-before +after):\n%s", diff)
	}
	if info, err := os.Stat(page); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the page: %v, %v", info, err)
	}
}

// tree returns the files below a folder with their contents.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The labels that a page was asked for are kept beside the sessions of its folder.
func TestScanLabelTakesOverThoseOfAPage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	claudeSession(t, filepath.Join(folder, "a/s1.jsonl"))
	page := filepath.Join(t.TempDir(), "report.html")
	succeed(t, "scan", "--html", page, folder)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`data-digest="([0-9a-f]+)" data-session="([^"]+)"`).FindStringSubmatch(string(text))
	if asked == nil {
		t.Fatal("the page asks nothing")
	}
	labels := filepath.Join(t.TempDir(), "page-labels.jsonl")
	line := fmt.Sprintf(`{"file_digest":%q,"session":%q,"verdict":"right"}`, asked[1], asked[2])
	if err := os.WriteFile(labels, []byte(line+"\n"+`{"file_digest":"00","session":"x","verdict":"wrong"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := succeed(t, "scan", "label", "--from", labels, folder); !strings.Contains(out, "1 label (") || !strings.Contains(out, "1 of sessions elsewhere") {
		t.Errorf("taken over: %s", out)
	}
	if out := succeed(t, "replay", "--labels", filepath.Join(folder, "unloop-labels.jsonl"), folder); !strings.Contains(out, "1 of 1") {
		t.Errorf("scores: %s", out)
	}
	for name, args := range map[string][]string{
		"a folder without the sessions": {"--from", labels, t.TempDir()}, "a session beside": {"--from", labels, folder, "s1.jsonl#s1", "right"}, "no verdict": {folder, "s1.jsonl#s1"},
	} {
		if code, _, _ := command(t, append([]string{"scan", "label"}, args...)...); code == 0 {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestScanNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	none := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile(none, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an empty folder":       {[]string{"scan", empty}, "no file with sessions in " + empty},
		"no such file":          {[]string{"scan", empty + "/x"}, "no such file"},
		"something else":        {[]string{"scan", none}, "contain no request"},
		"a faulty bundle":       {[]string{"scan", "--policies", none, none}, "policies"},
		"two bundles":           {[]string{"scan", "--policies", none, "--policies", none, none}, "--beside"},
		"a stale honest one":    {[]string{"scan", "label", empty, "s", "honest", "--stale", "3"}, "--stale"},
		"an unknown verdict":    {[]string{"scan", "label", empty, "s", "maybe"}, "right"},
		"an unknown session":    {[]string{"scan", "label", empty, "s.jsonl#1", "stuck"}, "holds no such file"},
		"two kinds of output":   {[]string{"scan", "--beside", none, "--html", empty + "/page.html", none}, "--beside and --html"},
		"labels without a set":  {[]string{"policy", "tune", empty}, "unloop scan label"},
		"labels that are wrong": {[]string{"replay", "--labels", none, none}, "line 1"},
	} {
		code, _, errOut := command(t, c.args...)
		if code == 0 || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: code %d, %s", name, code, errOut)
		}
	}
}
