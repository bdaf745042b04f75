package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// shownBy has the test that shows each row of the table that docs/integrations.md begins with.
var shownBy = map[string]func(*testing.T){
	"LiteLLM":                         TestGatewaysThatAskAreAnsweredInTheirForm,
	"Portkey":                         TestPortkeyDeniesALoop,
	"Envoy":                           TestEnvoyObeysInEachModeOfItsBodies,
	"Envoy, asking alone":             TestEnvoysAuthorizationIsDeniedInTheFormatOfThePath,
	"Envoy AI Gateway, Envoy Gateway": TestEnvoyObeysInEachModeOfItsBodies,
	"agentgateway":                    TestHintsReachModelsBehindOtherGateways,
	"agentgateway, for MCP":           TestAgentgatewaysResultsAreHinted,
	"Bifrost":                         TestBifrostsPluginStopsALoop,
	"Traefik":                         TestGatewaysThatAskAreAnsweredInTheirForm,
	"Kong":                            TestKongsFunctionStopsALoop,
	"nginx":                           TestNginxIsClosedByAStoppedRun,
	"Anthropic's inference hooks":     TestGatewaysThatAskNeedAKeyOrASignature,
	"Docker's MCP gateway":            TestCallsThatAreStoppedCloseNginxsLatch,
	"a framework or code of your own": TestToolRunnersCallIsWarnedOfThenBlocked,
}

var (
	// snippet is a block of code of a page, with its language.
	snippet = regexp.MustCompile("(?s)\n```([^\n]*)\n(.*?)\n```\n")
	// row is a row of a table, with its first cell.
	row = regexp.MustCompile(`(?m)^\| ([^|]+) \|.*$`)
	// asksAt is a path of the gateway in a row.
	asksAt = regexp.MustCompile("`…/(?:unloop/v1/beside/)?([a-z]+)`")
)

// untrue returns what nothing shows of a page about integrations. try runs a block of code.
func untrue(page string, try func(language, code string) error) (faults []string) {
	blocks := snippet.FindAllStringSubmatch(page, -1)
	if fences := strings.Count("\n"+page, "\n```"); len(blocks) == 0 || fences != 2*len(blocks) || strings.Contains(page, "\n\n    ") {
		faults = append(faults, fmt.Sprintf("%d fences, %d blocks of code, or one that is indented", fences, len(blocks)))
	}
	for _, block := range blocks {
		if err := try(block[1], block[2]+"\n"); err != nil {
			faults = append(faults, fmt.Sprintf("%v:\n%s", err, block[2]))
		}
	}
	rows := row.FindAllStringSubmatch(page, -1)
	shown := 0
	for _, r := range rows[min(1, len(rows)):] { // behind its head
		name := r[1]
		if strings.Trim(name, "-") == "" {
			continue
		}
		if shown++; shownBy[name] == nil {
			faults = append(faults, "no test shows the row "+name)
		}
		for _, at := range asksAt.FindAllStringSubmatch(r[0], -1) {
			if _, known := callouts()[at[1]]; !known {
				faults = append(faults, name+": nobody asks at "+at[1])
			}
		}
	}
	if shown != len(shownBy) {
		faults = append(faults, fmt.Sprintf("%d rows, %d are shown by tests", shown, len(shownBy)))
	}
	return faults
}

// Each block of code in docs/integrations.md does what the page says of it, and each row of its table
// is shown by a test.
func TestIntegrationsAreTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/integrations.md")
	if err != nil {
		t.Fatal(err)
	}
	page, url := string(text), start(t, echo(t)).URL()
	try := func(language, code string) error {
		if language != "sh" || !strings.Contains(code, "http://127.0.0.1:8080") {
			return fmt.Errorf("nothing tries a block of %q that asks elsewhere", language)
		}
		out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(code, "http://127.0.0.1:8080", url)).CombinedOutput()
		if err != nil || string(out) != "200 200 200 200 200 429 " {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	}
	for _, fault := range untrue(page, try) {
		t.Error(fault)
	}
	pass := func(language, _ string) error {
		if language != "sh" {
			return fmt.Errorf("a block of %q", language)
		}
		return nil
	}
	for what, made := range map[string]string{
		"a row":                strings.Replace(page, "| LiteLLM |", "| Made-up |", 1),
		"one row more":         strings.Replace(page, "\n| LiteLLM |", "\n| Made-up | x | y | z |\n| LiteLLM |", 1),
		"one row less":         strings.Replace(page, "\n| LiteLLM |", "\nLiteLLM |", 1),
		"a path":               strings.Replace(page, "`…/portkey`", "`…/porkey`", 1),
		"a language":           page + "\n```python\nimport unloop\n```\n",
		"no language":          page + "\n```\nunloop up\n```\n",
		"a block that is open": page + "\n```sh\nunloop up\n",
		"an indented block":    page + "\n\n    unloop up\n",
	} {
		if made == page || len(untrue(made, pass)) == 0 {
			t.Errorf("%s can be made up", what)
		}
	}
}
