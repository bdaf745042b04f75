package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/pull"
)

func TestModelThatIsAnotherLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	mirror, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(mirror, "tokenizer.json"), []byte(`{"another":"tokenizer"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut strings.Builder
	code := run(t.Context(), []string{"model", "pull", "--from", mirror, "--dir", dir}, nil, &out, &errOut)
	if code != 1 || !strings.Contains(errOut.String(), "\nunloop: install") || !strings.Contains(errOut.String(), "tokenizer.json") || out.Len() != 0 {
		t.Errorf("code %d, %q, %q; want an error that names the file", code, out.String(), errOut.String())
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEachFileHasABarOnALineOfItsOwn(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	bars := &fileBars{w: &out}
	for done := range int64(10_001) {
		bars.draw(pull.Progress{Name: "model.onnx", Done: done, Total: 10_000})
	}
	bars.draw(pull.Progress{Name: "model.onnx", Done: 10_000, Total: 10_000, Ready: true})
	if n := strings.Count(out.String(), "\r"); n > 200 || !strings.Contains(out.String(), "100%") || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("drawn %d times, ending in %q", n, out.String()[max(0, out.Len()-60):])
	}
	finished := out.Len()
	bars.end()
	if out.Len() != finished {
		t.Error("a line that had ended was ended again")
	}
	bars.draw(pull.Progress{Name: "tokenizer.json", Done: 1, Total: 10_000})
	bars.end()
	if lines := strings.Split(out.String()[finished:], "\n"); len(lines) != 2 || !strings.Contains(lines[0], "tokenizer.json") {
		t.Errorf("a file that failed: %q; want one line", out.String()[finished:])
	}
}
