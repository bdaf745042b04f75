package scan_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/scan"
)

// Names of people are hidden in each form in which agents write paths, and nothing else.
func TestNamesInPathsAreMasked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"/home/jdoe/src", "/Users/jdoe", `C:\Users\jdoe\src`, `"C:\\Users\\jdoe\\src"`, "/x/.claude/projects/-home-jdoe-src/a.jsonl", "-Users-jdoe-src",
	} {
		if got := (scan.Masking{}).Text(text); strings.Contains(got, "jdoe") {
			t.Errorf("%s is shown as %s", text, got)
		}
		if got := (scan.Masking{Off: true}).Text(text); got != text {
			t.Errorf("unmasked, %s is shown as %s", text, got)
		}
	}
	for _, text := range []string{"take-home-pay", "/var/lib/unloop", "all users"} {
		if got := (scan.Masking{}).Text(text); got != text {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}
