package scan

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/deploy/scan/agents"
)

// longSession returns a session of Claude Code with n calls, whose results have a length and are
// work that moves on: no two are equal.
func longSession(id string, n, length int) string {
	lines := []string{
		"func (c *Cart) Total(orders []Order) (sum int, err error) {", "\tfor _, o := range orders {", "\t\tif o.Price < 0 {", "\t\t\treturn 0, fmt.Errorf(\"order %s: %w\", o.ID, ErrPrice)",
		"\t}", "// Total returns what a buyer pays, with taxes, before the order is sent.", "--- PASS: TestTotal (0.02s)", "ok  \tgithub.com/ada/shop/cart\t0.412s", "src/cart/total.ts:41:17 - const taxes = rates[country] ?? 0;",
	}
	random := rand.New(rand.NewPCG(uint64(n), uint64(length)))
	var out strings.Builder
	line := func(step int, kind, message string) {
		fmt.Fprintf(&out, `{"parentUuid":"u%d","isSidechain":false,"type":%q,"message":%s,"uuid":"u%d","timestamp":"2026-03-02T%02d:%02d:%02d.500Z","sessionId":%q,"cwd":"/home/ada/shop"}`+"\n", step, kind, message, step+1, 1+step/360, step/6%60, step%6*10, id)
	}
	line(0, "user", `{"role":"user","content":"Make the tests pass."}`)
	for i := range n {
		line(2*i+1, "assistant", fmt.Sprintf(`{"id":"msg_%s_%d","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Now file %d."},{"type":"tool_use","id":"t%d","name":"Read","input":{"file_path":"/home/ada/shop/f%d.go"}}],"usage":{"input_tokens":300,"output_tokens":20}}`, id, i, i, i, i))
		var text strings.Builder
		for text.Len() < length {
			fmt.Fprintf(&text, "%s // %x\n", lines[random.IntN(len(lines))], random.IntN(1<<20))
		}
		line(2*i+2, "user", fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}`, i, text.String()))
	}
	return out.String()
}

// Each message of a session is handed on once: a session of twice the length costs twice as
// much.
func TestRequestsHaveOnlyWhatTheyAdd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "long.jsonl")
	text := longSession("long", 300, 2000)
	writeFile(t, path, text)
	n, size := 0, 0
	for q, err := range open(File{Path: path, Agent: agents.All[0]}) {
		if err != nil {
			t.Fatal(err)
		}
		if q.Answer == nil {
			n++
		}
		for _, m := range q.Added {
			size += len(m)
		}
	}
	if n != 300 || size > len(text) || size < len(text)/2 {
		t.Errorf("%d requests with %d bytes, of a file with %d", n, size, len(text))
	}
}
