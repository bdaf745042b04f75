package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The page writes amounts as everything else does: by the table that package money keeps to.
func TestThePageWritesMoneyAsAllElse(t *testing.T) {
	t.Parallel()
	node := need(t, "UNLOOP_TEST_NODE")
	script, err := os.ReadFile("../../notifier/internal/page/static/money.js")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../../schemas/money/testdata/amounts.json")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-")
	cmd.Stdin = strings.NewReader(string(script) + `
const faults = [...` + string(table) + `, { usd: NaN, text: "–" }, { usd: undefined, text: "–" }, { usd: Infinity, text: "–" }]
  .filter((row) => usd(row.usd) !== row.text).map((row) => row.usd + " is written " + usd(row.usd) + ", not " + row.text);
console.log(faults.join("\n") || "all alike");
`)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "all alike" {
		t.Errorf("%v: %s", err, out)
	}
}
