package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// snippet is a block of code of a page.
var snippet = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

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
		case "yaml":
			example, err := os.ReadFile("../beside/litellm/config.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var said, is map[string]any
			if err := yaml.Unmarshal([]byte(code), &said); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(example, &is); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(is["guardrails"], said["guardrails"]); diff != "" {
				t.Errorf("the page has another guardrail than the example (-example +page):\n%s", diff)
			}
		default:
			t.Errorf("nothing tries a block of %s", language)
		}
	}
	if tried["sh"] != 1 || tried["yaml"] != 1 {
		t.Errorf("tried %v", tried)
	}
}
