package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// snippet is a block of code of a page.
var snippet = regexp.MustCompile("(?s)\n```([a-z]+)\n(.*?)\n```\n")

// Each block of code in docs/integrations.md does what the page says of it.
func TestSnippetsOfIntegrationsAreTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/integrations.md")
	if err != nil {
		t.Fatal(err)
	}
	url := start(t, echo(t)).URL()
	tried := map[string]int{}
	for _, block := range snippet.FindAllStringSubmatch(string(page), -1) {
		language, code := block[1], block[2]
		tried[language]++
		switch language {
		case "sh":
			if !strings.Contains(code, "http://127.0.0.1:8080") {
				t.Errorf("asks elsewhere:\n%s", code)
			}
			out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(code, "http://127.0.0.1:8080", url)).CombinedOutput()
			if err != nil || string(out) != "200 200 200 200 200 429 " {
				t.Errorf("%v: %s", err, out)
			}
		default:
			t.Errorf("nothing tries a block of %s", language)
		}
	}
	if tried["sh"] == 0 {
		t.Error("the page has no command")
	}
}
