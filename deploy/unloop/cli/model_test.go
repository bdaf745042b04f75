package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
