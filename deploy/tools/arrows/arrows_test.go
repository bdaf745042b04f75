// Package arrows breaks the import rules of the lint policy on purpose, each in
// a small tree of its own folders, and expects the linter to say so.
package arrows

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ours is the path that all modules begin with.
const ours = "github.com/unloop/unloop/"

// imports is one import that a file of a folder makes.
type imports struct {
	file    string // relative to the root
	path    string
	refused bool
}

var table = []imports{
	{"schemas/subjects.go", ours + "schemas/event", false},
	{"schemas/event/event.go", ours + "schemas", false},
	{"schemas/event/kit.go", ours + "schemas/kit/natskit", true},
	{"schemas/event/gateway.go", ours + "gateway", true},
	{"schemas/event/deploy_test.go", ours + "deploy/unloop/system", true},
	{"schemas/policy/nats.go", "github.com/nats-io/nats.go", true},
	{"schemas/policy/http.go", "net/http", true},
	{"schemas/policy/url.go", "net/url", false},
	{"schemas/client/nats.go", "github.com/nats-io/nats.go", false},

	{"schemas/kit/service/schemas.go", ours + "schemas/event", false},
	{"schemas/kit/service/detector.go", ours + "detector", true},
	{"schemas/kit/service/deploy.go", ours + "deploy", true},

	{"gateway/kit.go", ours + "schemas/kit/natskit", false},
	{"gateway/own.go", ours + "gateway/internal/proxy", false},
	{"gateway/detector.go", ours + "detector", true},
	{"gateway/internal/proxy/notifier.go", ours + "notifier", true},
	{"gateway/internal/proxy/proxy_test.go", ours + "detector", true},
	{"gateway/internal/edge/forward/usage.go", ours + "gateway/internal/wire/usage", false},
	{"gateway/internal/memory/resolve/forward.go", ours + "gateway/internal/edge/forward", true},
	{"gateway/internal/memory/resolve/auth.go", ours + "gateway/internal/edge/auth", true},
	{"gateway/internal/decide/outcome/resolve.go", ours + "gateway/internal/memory/resolve", true},
	{"gateway/internal/rules/bundle/outcome.go", ours + "gateway/internal/decide/outcome", true},
	{"gateway/internal/ask/checker/bundle.go", ours + "gateway/internal/rules/bundle", true},
	{"gateway/internal/wire/usage/checker.go", ours + "gateway/internal/ask/checker", true},
	{"gateway/internal/wire/usage/bundle.go", ours + "gateway/internal/rules/bundle", true},
	{"gateway/internal/text/scrub/request.go", ours + "gateway/internal/wire/request", true},
	{"gateway/internal/share/fair/splice.go", ours + "gateway/internal/text/splice", true},

	{"gateway/cmd/gateway/main.go", ours + "deploy/unloop/system", true},

	{"detector/gateway.go", ours + "gateway", true},
	{"detector/kit.go", ours + "schemas/kit/service", false},
	{"detector/internal/counter/decision.go", ours + "schemas/checkpb", false},
	{"detector/internal/counter/nats.go", "github.com/nats-io/nats.go/jetstream", true},
	{"detector/internal/counter/http.go", "net/http", true},
	{"detector/internal/counter/context.go", "context", true},
	{"detector/internal/counter/nats_test.go", "github.com/nats-io/nats.go/jetstream", false},
	{"detector/internal/toolloop/nats.go", "github.com/nats-io/nats.go", true},
	{"detector/internal/limit/metrics.go", "github.com/prometheus/client_golang/prometheus", true},
	{"detector/internal/streak/context.go", "context", true},
	{"schemas/details/http.go", "net/http", true},
	{"gateway/internal/wire/transcript/http.go", "net/http", true},
	{"gateway/internal/wire/transcript/rounds/http.go", "net/http", true},
	{"gateway/internal/wire/provider/tree/nats.go", "github.com/nats-io/nats.go", true},
	{"gateway/internal/wire/repair/context.go", "context", true},
	{"gateway/internal/decide/evidence/http.go", "net/http", true},
	{"gateway/internal/decide/outcome/nats.go", "github.com/nats-io/nats.go", true},
	{"schemas/fingerprint/net.go", "net", true},
	{"detector/internal/recorder/nats.go", "github.com/nats-io/nats.go/jetstream", false},

	{"embedworker/own.go", ours + "embedworker/internal/onnx", false},
	{"embedworker/detector.go", ours + "detector", true},
	{"embedworker/runtime.go", "github.com/yalue/onnxruntime_go", true},
	{"embedworker/internal/onnx/runtime.go", "github.com/yalue/onnxruntime_go", false},

	{"notifier/gateway.go", ours + "gateway", true},
	{"notifier/schemas.go", ours + "schemas/event", false},

	{"deploy/all.go", ours + "gateway", false},
	{"deploy/more.go", ours + "notifier", false},
	{"deploy/log.go", "log", true},
	{"deploy/slog.go", "log/slog", false},
}

func TestImportsAgainstTheArrowsAreRefused(t *testing.T) {
	t.Parallel()
	linter := os.Getenv("UNLOOP_TEST_GOLANGCI_LINT")
	if linter == "" {
		t.Skip("UNLOOP_TEST_GOLANGCI_LINT is not set; make test sets it")
	}
	tree := t.TempDir()
	layModules(t, tree)
	policy, err := os.ReadFile("../../../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(tree, ".golangci.yml"), string(policy))
	want := map[string]bool{}
	for _, row := range table {
		write(t, filepath.Join(tree, row.file), source(t, tree, row))
		want[row.file] = row.refused
	}

	got := map[string]bool{}
	for _, row := range table {
		got[row.file] = false
	}
	for _, file := range refused(t, linter, tree) {
		got[file] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused imports (-want +got):\n%s", diff)
	}
}

// foreign are modules that the table imports; empty ones stand in for them.
var foreign = map[string][]string{
	"github.com/nats-io/nats.go":      {".", "jetstream"},
	"github.com/yalue/onnxruntime_go": {"."},
}

// layModules makes the tree one module, so that nothing needs to be resolved
// elsewhere, with the foreign ones inside it.
func layModules(t *testing.T, tree string) {
	t.Helper()
	mod := "module github.com/unloop/unloop\n\ngo 1.26.0\n"
	for path, packages := range foreign {
		folder := filepath.Join(tree, "foreign", filepath.Base(path))
		mod += fmt.Sprintf("require %s v0.0.0\nreplace %s => ./foreign/%s\n", path, path, filepath.Base(path))
		write(t, filepath.Join(folder, "go.mod"), "module "+path+"\n\ngo 1.26.0\n")
		for _, pkg := range packages {
			write(t, filepath.Join(folder, pkg, "foreign.go"), "package foreign\n")
		}
	}
	write(t, filepath.Join(tree, "go.mod"), mod)
}

// source is a file that makes the import. The rules look at how a path begins,
// so that what is imported of ours is an empty package below the one named,
// and no import is a cycle.
func source(t *testing.T, tree string, row imports) string {
	t.Helper()
	path := row.path
	if inside, ok := strings.CutPrefix(path, ours); ok {
		path += "/leaf"
		write(t, filepath.Join(tree, inside, "leaf", "leaf.go"), "package leaf\n")
	}
	return fmt.Sprintf("package %s\n\nimport _ %q\n", packageOf(row.file), path)
}

// refused returns the files in which the linter refuses an import.
func refused(t *testing.T, linter, tree string) []string {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), linter, "run", "--enable-only=depguard", "--allow-parallel-runners",
		"--output.text.path=stderr", "--output.json.path="+report, "./...")
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOLANGCI_LINT_CACHE="+t.TempDir())
	printed, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the linter found nothing:\n%s", printed)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("the linter left no report: %v\n%s", err, printed)
	}
	var found struct {
		Issues []struct {
			FromLinter string
			Pos        struct{ Filename string }
		}
	}
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, issue := range found.Issues {
		if issue.FromLinter != "depguard" {
			t.Fatalf("%s: found by %s:\n%s", issue.Pos.Filename, issue.FromLinter, printed)
		}
		files = append(files, filepath.ToSlash(issue.Pos.Filename))
	}
	return files
}

func packageOf(file string) string {
	if strings.HasPrefix(filepath.Base(file), "main") {
		return "main"
	}
	return filepath.Base(filepath.Dir(file))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
